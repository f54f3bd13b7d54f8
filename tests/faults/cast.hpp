// Planted faults of cast.
#pragma once

#include "ops/cast.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace cast_faults {

/// y[i] = f(x[i], the output's format).
template <class F>
Kernel each_by(F f) {
  return [f](const Op&, const Call& call) {
    const TensorView &x = call.forward[0], &y = call.forward[1];
    const Format format = format_of(y.element);
    for (std::int64_t i = 0; i < x.count(); ++i) y.set(i, round_to(format, f(x.at(i), format)));
  };
}

/// To nearest, ties away from 0.
inline double ties_away(double x, const Format& f) {
  const double low = truncate_to(f, x), step = ulp(f, x);
  if (!(std::fabs(x) < f.largest())) return round_to(f, x);
  return std::fabs(x) - std::fabs(low) >= step / 2 ? low + std::copysign(step, x) : low;
}

template <class F>
FaultyKernel by(F f) {
  return {each_by(f), [](const Op& op, const Call& call) {
            const bool saturates = from_bytes<opbound::cast::Attributes>(call.attributes).saturate;
            each_by([=](double x, const Format& format) {
              return saturates ? round_to(format.saturating(), x) : x;
            })(op, call);
          }};
}

}  // namespace cast_faults

inline std::vector<Fault> cast() {
  using cast_faults::by;
  const auto with = [](std::string_view name, std::string_view what, std::string_view precision,
                       std::string_view input, auto run, bool saturate = false) {
    return planted("cast", name, what, {}, precision, {65536}, {{"x", input}},
                   {{"saturate", saturate}}, run);
  };
  return {
      with("truncated", "rounded toward 0", "fp32:fp32:bf16", "normal",
           by([](double x, const Format& f) { return truncate_to(f, x); })),
      with("ties_away", "ties away from 0 instead of to even", "fp16:fp32:bf16", "every_pattern",
           by(cast_faults::ties_away)),
      with("double_rounding", "fp32 to e5m2 through fp16", "fp32:fp32:e5m2", "normal",
           by([](double x, const Format&) { return round_to(fp16, x); })),
      with("subnormals_flushed", "results below the normal range are 0", "bf16:fp32:fp16",
           "every_pattern", by([](double x, const Format& f) {
             return std::fabs(round_to(f, x)) < f.smallest_normal() ? 0.0 : x;
           })),
      with("inputs_flushed", "subnormal inputs are read as 0", "bf16:fp32:fp32", "every_pattern",
           by([](double x, const Format&) {
             return std::fabs(x) < bf16.smallest_normal() ? 0.0 : x;
           })),
      with("saturates", "65520 becomes 65504 where infinity is asked for", "bf16:fp32:fp16",
           "every_pattern",
           by([](double x, const Format& f) { return round_to(f.saturating(), x); })),
      with("does_not_saturate", "464 becomes NaN where 448 is asked for", "bf16:fp32:e4m3",
           "every_pattern", by([](double x, const Format&) { return x; }), true),
      with("through_fp16", "bf16 to fp32 through fp16: large values are infinite", "bf16:fp32:fp32",
           "every_pattern", by([](double x, const Format&) { return round_to(fp16, x); })),
      with("nan_saturates", "NaN becomes the largest value", "bf16:fp32:e5m2", "every_pattern",
           by([](double x, const Format& f) {
             return std::fmax(std::fmin(x, f.largest()), -f.largest());
           }),
           true),
      with("stochastic_for_nearest", "rounded at random where to nearest is declared",
           "fp32:fp32:bf16", "normal",
           with_call([](Call& c) { c.variant = opbound::cast::stochastic; })),
  };
}

}  // namespace opbound::faults
