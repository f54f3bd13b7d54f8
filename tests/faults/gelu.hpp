// Planted faults of gelu.
#pragma once

#include "ops/gelu.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

inline std::vector<Fault> gelu() {
  using Op = opbound::gelu;
  using Forward = Op::forward::elements;
  using Backward = Op::backward::elements;
  const auto backward = [](auto derivative) {
    return [derivative](const opbound::Op&, const Call& call) {
      const auto& v = call.backward;
      for (std::int64_t i = 0; i < v[0].count(); ++i) {
        const auto x = static_cast<float>(v[0].at(i)), dy = static_cast<float>(v[1].at(i));
        v[2].set(i, round_to(format_of(v[2].element), derivative(x, dy, i)));
      }
    };
  };
  const auto slope = [](float x) { return Backward::derivative<float>(Op::erfc_form, x); };
  const auto value = [](int variant, float x) { return Forward::value<float>(variant, x); };
  constexpr auto up = Direction::backward_local;
  const std::vector<std::pair<std::string_view, std::string_view>> patterns{{"x", "every_pattern"}},
      tail{{"x", "gelu_tail"}}, both{{"x", "normal(sigma=2)"}, {"dy", "normal"}},
      zero{{"x", "gelu_zero"}, {"dy", "normal"}};

  return {
      {"gelu",
       "one_plus_erf",
       "(x/2) (1 + erf) where erfc is declared",
       {},
       "bf16:fp32:bf16",
       {65536},
       patterns,
       {},
       with_call([](Call& c) { c.variant = Op::one_plus_erf; })},
      {"gelu",
       "one_plus_tanh",
       "(x/2) (1 + tanh) where the sigmoid form is declared",
       {},
       "fp16:fp32:fp16",
       {65536},
       patterns,
       {{"approximate", std::string("tanh")}},
       with_call([](Call& c) { c.variant = Op::one_plus_tanh; })},
      {"gelu",
       "tanh_for_erf",
       "the approximation where the exact form is asked for",
       {},
       "bf16:fp32:bf16",
       {65536},
       patterns,
       {},
       elementwise(0, 1, [=](float x, std::int64_t) { return value(Op::sigmoid, x); })},
      {"gelu",
       "erf_for_tanh",
       "the exact form where the approximation is asked for",
       {},
       "fp32",
       {1024},
       {{"x", "normal(sigma=2)"}},
       {{"approximate", std::string("tanh")}},
       elementwise(0, 1, [=](float x, std::int64_t) { return value(Op::erfc_form, x); })},
      {"gelu",
       "truncated_store",
       "the output truncated instead of rounded to nearest",
       {},
       "bf16:fp32:bf16",
       {65536},
       patterns,
       {},
       truncating(1)},
      {"gelu",
       "gate_in_bf16",
       "Phi rounded to bf16 before the product",
       {},
       "fp32",
       {1024},
       {{"x", "normal"}},
       {},
       elementwise(0, 1,
                   [](float x, std::int64_t) {
                     const float phi = 0.5F * erfc(-(x * 0.70710678F));
                     return static_cast<double>(x * static_cast<float>(round_to(bf16, phi)));
                   })},
      {"gelu",
       "short_constant",
       "0.0447 for 0.044715",
       {},
       "fp16:fp32:fp16",
       {65536},
       patterns,
       {{"approximate", std::string("tanh")}},
       elementwise(0, 1,
                   [](float x, std::int64_t) {
                     const float t = 0.79788456F * (x * (1 + 0.0447F * (x * x)));
                     return static_cast<double>(x < 0 ? x * exp(2 * t) / (1 + exp(2 * t))
                                                      : x / (1 + exp(-2 * t)));
                   })},
      {"gelu",
       "clamped_tail",
       "0 below x = -5 instead of a tail",
       {},
       "fp32",
       {1024},
       tail,
       {},
       elementwise(0, 1,
                   [=](float x, std::int64_t) { return x < -5 ? 0 : value(Op::erfc_form, x); })},
      {"gelu",
       "flushed_subnormals",
       "subnormal results flushed to 0",
       {},
       "fp32",
       {512},
       {{"x", "subnormal"}},
       {},
       elementwise(0, 1,
                   [=](float x, std::int64_t) {
                     const float y = value(Op::erfc_form, x);
                     return abs(y) < 0x1p-126F ? 0.0F : y;
                   })},
      {"gelu",
       "dropped_tail",
       "the last n mod 4 elements left unwritten",
       {},
       "fp32",
       {1027},
       {{"x", "normal"}},
       {},
       [=](const opbound::Op&, const Call& call) {
         const auto& v = call.forward;
         for (std::int64_t i = 0; i < v[0].count() / 4 * 4; ++i)
           v[1].set(i, value(Op::erfc_form, static_cast<float>(v[0].at(i))));
       }},
      {"gelu",
       "no_density_term",
       "dx = dy Phi(x), without x phi(x)",
       up,
       "bf16:fp32:bf16",
       {4096},
       both,
       {},
       backward(
           [](float x, float dy, std::int64_t) { return dy * (0.5F * erfc(-(x * 0.70710678F))); })},
      {"gelu",
       "upstream_ignored",
       "dx = g(x), the upstream gradient taken for 1",
       up,
       "fp32",
       {1024},
       both,
       {},
       backward([=](float x, float, std::int64_t) { return slope(x); })},
      {"gelu",
       "first_upstream_for_all",
       "every element uses dy[0]",
       up,
       "fp32",
       {1024},
       both,
       {},
       [=](const opbound::Op&, const Call& call) {
         const auto& v = call.backward;
         const auto dy = static_cast<float>(v[1].at(0));
         for (std::int64_t i = 0; i < v[0].count(); ++i)
           v[2].set(i, dy * slope(static_cast<float>(v[0].at(i))));
       }},
      {"gelu",
       "derivative_clamped_at_3",
       "the derivative set to 1 for x > 3",
       up,
       "fp32",
       {1024},
       {{"x", "uniform(low=2, high=6)"}, {"dy", "normal"}},
       {},
       backward([=](float x, float dy, std::int64_t) { return dy * (x > 3 ? 1 : slope(x)); })},
      {"gelu",
       "derivative_rounded_near_zero",
       "g(x) rounded to bf16 before the product",
       up,
       "fp32",
       {1024},
       zero,
       {},
       backward([=](float x, float dy, std::int64_t) {
         return dy * static_cast<float>(round_to(bf16, slope(x)));
       })},
      {"gelu",
       "product_in_bf16",
       "dy g(x) computed in bf16",
       up,
       "bf16:fp32:bf16",
       {4096},
       both,
       {},
       backward([=](float x, float dy, std::int64_t) {
         const auto g = Rounded<bf16>::of(slope(x));
         return (Rounded<bf16>::of(dy) * g).value;
       })},
  };
}

}  // namespace opbound::faults
