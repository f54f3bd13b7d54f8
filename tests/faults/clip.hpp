// Planted faults of clip.
#pragma once

#include "ops/clip.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace clip_faults {

/// clipped[i] = g[i] c and the coefficient c = f(max_norm, norm, eps), over fp32.
template <class F>
Kernel scaled_by(F f) {
  return [f](const Op&, const Call& call) {
    const auto a = from_bytes<opbound::clip::Attributes>(call.attributes);
    const auto& v = call.forward;
    const float c = f(static_cast<float>(a.max_norm), static_cast<float>(v[1].at(0)),
                      static_cast<float>(a.eps));
    v[2].set(0, c);
    for (std::int64_t i = 0; i < v[0].count(); ++i)
      v[3].set(i, round_to(format_of(v[3].element), static_cast<float>(v[0].at(i)) * c));
  };
}

template <class F>
FaultyKernel factor(F f) {
  return {scaled_by(f), scaled_by([](float limit, float norm, float eps) {
            return norm != norm ? norm : min(limit / (norm + eps), 1.0F);
          })};
}

}  // namespace clip_faults

inline std::vector<Fault> clip() {
  using clip_faults::factor;
  const auto with = [](std::string_view name, std::string_view what, std::string_view precision,
                       std::string_view norm, auto run) {
    return planted("clip", name, what, {}, precision, {64, 1}, {{"g", "normal"}, {"norm", norm}},
                   {}, run);
  };
  return {
      with("applied_below_max_norm", "no min with 1: small gradients grow", "bf16:fp32:bf16",
           "constant(value=0.25)",
           factor([](float limit, float norm, float eps) { return limit / (norm + eps); })),
      with("eps_missing", "max_norm / norm", "fp32", "constant(value=1.5)",
           factor([](float limit, float norm, float) { return min(limit / norm, 1.0F); })),
      with(
          "eps_outside", "max_norm / norm + eps", "fp32", "constant(value=1.5)",
          factor([](float limit, float norm, float eps) { return min(limit / norm + eps, 1.0F); })),
      with("squared_norm", "the sum of squares instead of its root", "bf16:fp32:bf16",
           "constant(value=3)", factor([](float limit, float norm, float eps) {
             return min(limit / (norm * norm + eps), 1.0F);
           })),
      with("inverted", "norm / max_norm", "bf16:fp32:bf16", "constant(value=3)",
           factor(
               [](float limit, float norm, float eps) { return min((norm + eps) / limit, 1.0F); })),
      with("max_for_min", "max(1, max_norm / (norm + eps)): never clipped", "bf16:fp32:bf16",
           "constant(value=3)", factor([](float limit, float norm, float eps) {
             return max(limit / (norm + eps), 1.0F);
           })),
      with("coefficient_in_bf16", "the coefficient rounded to bf16", "bf16:fp32:bf16",
           "constant(value=3)", factor([](float limit, float norm, float eps) {
             return rounded(bf16, min(limit / (norm + eps), 1.0F));
           })),
      with("norm_in_fp16", "the norm kept in fp16: 1e5 is infinite, and all gradients vanish",
           "bf16:fp32:bf16", "constant(value=100000)",
           factor([](float limit, float norm, float eps) {
             return min(limit / (rounded(fp16, norm) + eps), 1.0F);
           })),
      with("nan_norm_ignored", "a comparison with NaN is false: not clipped", "fp32",
           "constant(value=nan)", factor([](float limit, float norm, float eps) {
             return norm + eps > limit ? limit / (norm + eps) : 1.0F;
           })),
  };
}

}  // namespace opbound::faults
