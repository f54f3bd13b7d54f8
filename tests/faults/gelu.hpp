// Planted faults of gelu.
#pragma once

#include "ops/gelu.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace gelu_faults {

using Op = opbound::gelu;
using Forward = Op::forward::elements;
using Backward = Op::backward::elements;

inline float erfc_value(float x) { return Forward::value<float>(Op::erfc_form, x); }
inline float tanh_value(float x) { return Forward::value<float>(Op::sigmoid, x); }
inline float slope(float x) { return Backward::derivative<float>(Op::erfc_form, x); }

/// y = f(x) where the exact form is declared, or the approximation.
template <class F>
FaultyKernel for_erfc(F f) {
  return elementwise("y", {"x"}, f, erfc_value);
}
template <class F>
FaultyKernel for_tanh(F f) {
  return elementwise("y", {"x"}, f, tanh_value);
}
/// dx = f(x, dy).
template <class F>
FaultyKernel backward(F f) {
  return elementwise("dx", {"x", "dy"}, f, [](float x, float dy) { return dy * slope(x); });
}

inline Attributes approximate() { return {{"approximate", std::string("tanh")}}; }

inline std::vector<Fault> of_forward() {
  const Inputs patterns{{"x", "every_pattern"}};
  return {
      planted("gelu", "one_plus_erf", "(x/2) (1 + erf) where erfc is declared", {},
              "bf16:fp32:bf16", {65536}, patterns, {},
              with_call([](Call& c) { c.variant = Op::one_plus_erf; })),
      planted("gelu", "one_plus_tanh", "(x/2) (1 + tanh) where the sigmoid form is declared", {},
              "fp16:fp32:fp16", {65536}, patterns, approximate(),
              with_call([](Call& c) { c.variant = Op::one_plus_tanh; })),
      planted("gelu", "tanh_for_erf", "the approximation where the exact form is asked for", {},
              "bf16:fp32:bf16", {65536}, patterns, {}, for_erfc(tanh_value)),
      planted("gelu", "erf_for_tanh", "the exact form where the approximation is asked for", {},
              "fp32", {1024}, {{"x", "normal(sigma=2)"}}, approximate(), for_tanh(erfc_value)),
      planted("gelu", "truncated_store", "the output truncated instead of rounded to nearest", {},
              "bf16:fp32:bf16", {65536}, patterns, {}, truncating()),
      planted("gelu", "gate_in_bf16", "Phi rounded to bf16 before the product", {}, "fp32", {1024},
              {{"x", "normal"}}, {}, for_erfc([](float x) {
                const float phi = 0.5F * erfc(-(x * 0.70710678F));
                return static_cast<double>(x * static_cast<float>(round_to(bf16, phi)));
              })),
      planted("gelu", "short_constant", "0.0447 for 0.044715", {}, "fp16:fp32:fp16", {65536},
              patterns, approximate(), for_tanh([](float x) {
                const float t = 0.79788456F * (x * (1 + 0.0447F * (x * x)));
                return static_cast<double>(x < 0 ? x * exp(2 * t) / (1 + exp(2 * t))
                                                 : x / (1 + exp(-2 * t)));
              })),
      planted("gelu", "clamped_tail", "0 below x = -5 instead of a tail", {}, "fp32", {1024},
              {{"x", "gelu_tail"}}, {},
              for_erfc([](float x) { return x < -5 ? 0 : erfc_value(x); })),
      planted("gelu", "flushed_subnormals", "subnormal results flushed to 0", {}, "fp32", {512},
              {{"x", "subnormal"}}, {}, for_erfc([](float x) {
                const float y = erfc_value(x);
                return abs(y) < 0x1p-126F ? 0.0F : y;
              })),
      planted("gelu", "dropped_tail", "the last n mod 4 elements left unwritten", {}, "fp32",
              {1027}, {{"x", "normal"}}, {},
              FaultyKernel(
                  [](const opbound::Op& op, const Call& call) {
                    const Judged t(op, call);
                    for (std::int64_t i = 0; i < t("x").count() / 4 * 4; ++i)
                      t.put("y", i, erfc_value(t.get("x", i)));
                  },
                  each("y", {"x"}, erfc_value))),

  };
}

inline std::vector<Fault> of_backward() {
  constexpr auto up = Direction::backward_local;
  const Inputs both{{"x", "normal(sigma=2)"}, {"dy", "normal"}};
  return {
      planted("gelu", "no_density_term", "dx = dy Phi(x), without x phi(x)", up, "bf16:fp32:bf16",
              {4096}, both, {},
              backward([](float x, float dy) { return dy * (0.5F * erfc(-(x * 0.70710678F))); })),
      planted("gelu", "upstream_ignored", "dx = g(x), the upstream gradient taken for 1", up,
              "fp32", {1024}, both, {}, backward([](float x, float) { return slope(x); })),
      planted("gelu", "first_upstream_for_all", "every element uses dy[0]", up, "fp32", {1024},
              both, {},
              FaultyKernel(
                  [](const opbound::Op& op, const Call& call) {
                    const Judged t(op, call);
                    for (std::int64_t i = 0; i < t("x").count(); ++i)
                      t.put("dx", i, t.get("dy", 0) * slope(t.get("x", i)));
                  },
                  backward(plain_add).control)),

      planted("gelu", "derivative_clamped_at_3", "the derivative set to 1 for x > 3", up, "fp32",
              {1024}, {{"x", "uniform(low=2, high=6)"}, {"dy", "normal"}}, {},
              backward([](float x, float dy) { return dy * (x > 3 ? 1 : slope(x)); })),
      planted("gelu", "derivative_rounded_near_zero", "g(x) rounded to bf16 before the product", up,
              "fp32", {1024}, {{"x", "gelu_zero"}, {"dy", "normal"}}, {},
              backward([](float x, float dy) {
                return dy * static_cast<float>(round_to(bf16, slope(x)));
              })),
      planted("gelu", "product_in_bf16", "dy g(x) computed in bf16", up, "bf16:fp32:bf16", {4096},
              both, {}, backward([](float x, float dy) {
                const auto g = Rounded<bf16>::of(slope(x));
                return (Rounded<bf16>::of(dy) * g).value;
              })),
  };
}

}  // namespace gelu_faults

inline std::vector<Fault> gelu() {
  return joined(gelu_faults::of_forward(), gelu_faults::of_backward());
}

}  // namespace opbound::faults
