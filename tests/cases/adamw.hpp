// Public cases of adamw.
#pragma once

#include <limits>

#include "ops/adamw.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace adamw_cases {

/// The right run, but one state stored in bf16 after every step, as increments of the right one.
inline FaultyKernel state_in_bf16(std::string_view state, std::string_view next) {
  return [=](const Op& op, const Call& call) {
    op.run(call);
    const Judged t(op, call);
    const std::int64_t n = call.sizes[1];
    for (std::int64_t i = 0; i < n; ++i) {
      float right = t.get(state, i), stored = right;
      for (std::int64_t step = 0; step < call.sizes[0]; ++step) {
        const float now = t.get(next, step * n + i);
        stored = in_bf16(stored + (now - right));
        right = now;
        t.put(next, step * n + i, stored);
      }
    }
  };
}

/// w + m / (sqrt(v) / (c s) + eps / s), s = -lr / c: a step size of 0 divides.
inline void divided_by_the_step(const Op& op, const Call& call) {
  op.run(call);
  const Judged t(op, call);
  const auto a = from_bytes<opbound::adamw::Attributes>(call.attributes);
  const auto s = -static_cast<float>(a.lr);
  for (std::int64_t i = 0; i < call.sizes[1]; ++i)
    t.put("next_w", i,
          t.get("w", i) +
              t.get("next_m", i) / (sqrt(t.get("next_v", i)) / s + static_cast<float>(a.eps) / s));
}

}  // namespace adamw_cases

inline std::vector<PublicCase> adamw() {
  using namespace adamw_cases;
  constexpr auto forth = Direction::forward;
  const CaseInput no_m{"m", "constant(value=0)"}, no_v{"v", "constant(value=0)"},
      no_g{"g", "constant(value=0)"}, always{"found_inf", "", {0}}, weights{"w", "", {1, -2, 0.5}};
  std::vector<std::string_view> last_of_1000(1000);
  last_of_1000.back() = "0.36770";
  const auto fp16_word = AttributeValue(std::string("fp16"));
  const auto bf16_word = AttributeValue(std::string("bf16"));
  return {
      shown("OPT-01", "eps held in fp16 is 0: a zero gradient makes 0 / 0", "adamw", forth,
            "fp16:fp32:fp16", {1, 3}, {weights, no_g, no_m, no_v, always},
            {{"weight_decay", 0.0}, {"state_format", fp16_word}},
            {{"next_w", {"=1", "=-2", "=0.5"}}}, with_attribute("hyper_format", fp16_word)),
      shown("OPT-02",
            "weights stored in bf16 where fp32 is declared: steps of 0.00195 are lost at 1",
            "adamw", forth, "fp32", {50, 1},
            {{"w", "", {1}},
             {"g", "constant(value=1)"},
             {"m", "constant(value=1)"},
             {"v", "constant(value=1)"},
             always},
            {{"lr", 0.00195}, {"weight_decay", 0.0}, {"step", std::int64_t{100000}}}, {},
            state_in_bf16("w", "next_w")),
      shown("OPT-04", "betas held in bf16", "adamw", forth, "fp32", {10, 1},
            {{"w", "", {1}}, {"g", "constant(value=1)"}, no_m, no_v, always},
            {{"weight_decay", 0.0}}, {}, with_attribute("hyper_format", bf16_word)),
      shown("OPT-07", "divided by a learning rate of 0", "adamw", forth, "fp32", {1, 3},
            {weights, no_g, no_m, no_v, always}, {{"lr", 0.0}}, {{"next_w", {"=1", "=-2", "=0.5"}}},
            divided_by_the_step),
      shown("OPT-08", "a second moment in bf16: 0.999 v is v", "adamw", forth, "fp32", {1000, 1},
            {{"w", "", {1}}, no_g, no_m, {"v", "constant(value=1)"}, always},
            {{"weight_decay", 0.0}}, {{"next_v", last_of_1000}}, state_in_bf16("v", "next_v")),
  };
}

}  // namespace opbound::cases
