// Planted faults of loss_scaler.
#pragma once

#include "ops/loss_scaler.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace loss_scaler_faults {

/// The state machine in fp32, with one rule that may be wrong.
struct Rules {
  bool looks = true;                 ///< at found_inf
  std::int64_t delay = 0;            ///< by so many steps
  bool resets_at_found_inf = true;   ///< the tracker
  bool resets_at_growth = true;      ///< the tracker
  std::int64_t interval_is_off = 0;  ///< by so many steps
  bool keeps_when_overflowing = true;
  bool swaps_factors = false;
  Format format = fp32;  ///< of the scale
  float least = 0;       ///< the scale never falls below
};

inline Kernel steps_by(const Rules& rules) {
  return [rules](const Op&, const Call& call) {
    const auto a = from_bytes<opbound::loss_scaler::Attributes>(call.attributes);
    const auto& v = call.forward;
    auto growth = static_cast<float>(a.growth_factor);
    auto backoff = static_cast<float>(a.backoff_factor);
    if (rules.swaps_factors) std::swap(growth, backoff);
    const auto stored = [&](float s) { return static_cast<float>(round_to(rules.format, s)); };
    float s = stored(static_cast<float>(a.init_scale));
    std::int64_t tracker = 0;
    for (std::int64_t t = 0; t < call.sizes[0]; ++t) {
      if (rules.looks && t >= rules.delay && v[0].at(t - rules.delay) != 0) {
        s = max(stored(s * backoff), rules.least);
        if (rules.resets_at_found_inf) tracker = 0;
      } else if (++tracker >= a.growth_interval + rules.interval_is_off) {
        const float grown = stored(s * growth);
        if (!rules.keeps_when_overflowing || std::isfinite(grown)) s = grown;
        if (rules.resets_at_growth) tracker = 0;
      }
      v[1].set(t, s);
      v[2].set(t, static_cast<double>(tracker));
    }
  };
}

inline FaultyKernel machine(const Rules& rules) { return {steps_by(rules), steps_by({})}; }

}  // namespace loss_scaler_faults

inline std::vector<Fault> loss_scaler() {
  using loss_scaler_faults::machine;
  const auto with = [](std::string_view name, std::string_view what, std::int64_t interval,
                       double init, std::string_view found, loss_scaler_faults::Rules rules) {
    return planted("loss_scaler", name, what, {}, "fp32", {200}, {{"found_inf", found}},
                   {{"growth_interval", interval}, {"init_scale", init}}, machine(rules));
  };
  constexpr std::string_view some = "mask(p=0.1)";
  return {
      with("found_inf_ignored", "the scale never falls", 5, 65536, some, {.looks = false}),
      with("found_inf_one_step_late", "the last step's found_inf decides", 5, 65536, some,
           {.delay = 1}),
      with("tracker_survives_found_inf", "the tracker goes on after an overflow", 5, 65536, some,
           {.resets_at_found_inf = false}),
      with("tracker_survives_growth", "the scale grows at every step once it has grown", 5, 65536,
           some, {.resets_at_growth = false}),
      with("interval_one_too_long", "growth at growth_interval + 1 clean steps", 5, 65536, some,
           {.interval_is_off = 1}),
      with("interval_one_too_short", "growth at growth_interval - 1 clean steps", 5, 65536, some,
           {.interval_is_off = -1}),
      with("grows_to_infinity", "2^128 is taken, and all gradients are infinite from then on", 1,
           65536, "mask(p=0)", {.keeps_when_overflowing = false}),
      with("factors_swapped", "backoff after clean steps, growth after an overflow", 5, 65536, some,
           {.swaps_factors = true}),
      with("scale_in_fp16", "65536 is infinite in fp16", 5, 65536, some, {.format = fp16}),
      with("least_scale", "the scale stops at 1 where it may fall further", 1000, 4, "mask(p=0.3)",
           {.least = 1}),
  };
}

}  // namespace opbound::faults
