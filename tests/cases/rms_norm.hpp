// Public cases of rms_norm.
#pragma once

#include "ops/rms_norm.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace rms_norm_cases {

/// y = x rstd gamma, the sum of squares rounded to bf16 at every step.
inline void squares_in_bf16(const Op& op, const Call& call) {
  op.run(call);
  const Judged t(op, call);
  const std::int64_t n = call.sizes[1];
  for (std::int64_t r = 0; r < call.sizes[0]; ++r) {
    float s = 0;
    for (std::int64_t j = 0; j < n; ++j)
      s = in_bf16(s + t.get("x", r * n + j) * t.get("x", r * n + j));
    const float rstd = 1 / sqrt(s / static_cast<float>(n) + 1e-6F);
    for (std::int64_t j = 0; j < n; ++j)
      t.put("y", r * n + j, t.get("x", r * n + j) * rstd * t.get("gamma", j));
  }
}

}  // namespace rms_norm_cases

inline std::vector<PublicCase> rms_norm() {
  using namespace rms_norm_cases;
  constexpr auto forth = Direction::forward, local = Direction::backward_local;
  const std::vector<CaseInput> rows{{"x", "normal"}, {"gamma", "normal(mean=1)"}, {"dy", "normal"}};
  const auto named = [](const char* format) { return AttributeValue(std::string(format)); };
  const Attributes twice{{"xhat_format", named("bf16")}};
  return {
      shown("NORM-07", "xhat stored in fp16 before the weight, where one rounding is declared",
            "rms_norm", forth, "fp16:fp32:fp16", {8, 256}, rows, {}, {},
            with_attribute("xhat_format", named("fp16"))),
      shown("NORM-08", "two roundings, declared so: within its own bound", "rms_norm", forth,
            "bf16:fp32:bf16", {8, 256}, rows, twice),
      shown("NORM-08", "one rounding, declared so: within its own bound", "rms_norm", forth,
            "bf16:fp32:bf16", {8, 256}, rows),
      shown("NORM-10", "xhat stored in bf16 before the weight, in a fused kernel", "rms_norm",
            forth, "bf16:fp32:bf16", {4, 1024}, rows, {}, {},
            with_attribute("xhat_format", named("bf16"))),
      shown("NORM-11", "squares added in bf16: one large place hides all others", "rms_norm", forth,
            "bf16:fp32:bf16", {4, 4096},
            {{"x", "one_hot(value=1000, background=16)"}, {"gamma", "normal(mean=1)"}}, {}, {},
            squares_in_bf16),
      shown("NORM-16",
            "one rounding at the end: half an ulp, whatever eager and compiled differ by",
            "rms_norm", forth, "bf16:fp32:bf16", {4, 4096}, rows, {{"eps", 1e-5}}),
      shown("NORM-17", "1 + weight rounded to bf16", "rms_norm", forth, "bf16:fp32:bf16", {8, 256},
            {{"x", "normal"}, {"gamma", "", {0.05}}}, {{"weight_offset", 1.0}}, {},
            [](const Op& op, const Call& call) {
              Call other = call;
              Tensor weight(fp32, {call.sizes[1]});
              weight.fill(in_bf16(1 + static_cast<float>(call.forward[1].at(0))) - 1);
              other.forward[1] = weight.view();
              op.run(other);
            }),
      shown("NORM-20", "dgamma added in the storage format", "rms_norm", local, "fp16:fp32:fp16",
            {512, 64}, rows, {}, {},
            [](const Op& op, const Call& call) {
              op.run(call);
              const Judged t(op, call);
              const std::int64_t n = call.sizes[1];
              for (std::int64_t c = 0; c < n; ++c) {
                float s = 0;
                for (std::int64_t r = 0; r < call.sizes[0]; ++r)
                  s = in_fp16(s +
                              t.get("dy", r * n + c) * t.get("x", r * n + c) * t.get("rstd", r));
                t.put("dgamma", c, s);
              }
            }),
  };
}

}  // namespace opbound::cases
