// Public cases of gelu.
#pragma once

#include "ops/gelu.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace gelu_cases {

using Op = opbound::gelu;
using Forward = Op::forward::elements;
using Backward = Op::backward::elements;

inline float slope(float x) { return Backward::derivative<float>(Op::erfc_form, x); }
inline float tanh_value(float x) { return Forward::value<float>(Op::sigmoid, x); }
inline float cdf(float x) { return 0.5F * erfc(-(x * 0.70710678F)); }
inline float density(float x) { return 0.39894228F * exp(-0.5F * (x * x)); }

/// dx = f(x, dy) in fp32.
template <class F>
FaultyKernel backward(F f) {
  return elementwise("dx", {"x", "dy"}, f);
}
/// y = f(x) in fp32.
template <class F>
FaultyKernel forward(F f) {
  return elementwise("y", {"x"}, f);
}

/// The derivative with every operation, and every intermediate result, in format F.
template <Format F>
float slope_in(float value) {
  using T = Rounded<F>;
  const T x = from<T>(value), half = from<T>(0.5), one = from<T>(1.0);
  const T cdf = half * (one + erf(x * from<T>(0.70710678)));
  return (cdf + x * (from<T>(0.39894228) * exp(-(half * (x * x))))).value;
}

/// The graph 0.5 x (1 + tanh(c (x + 0.044715 x^3))), differentiated step by step in fp16.
inline float tanh_slope_in_fp16(float value) {
  using T = Rounded<fp16>;
  const T x = from<T>(value), one = from<T>(1.0), half = from<T>(0.5), c = from<T>(0.79788456);
  const T b = from<T>(0.044715), h = tanh(c * (x + b * (x * x * x)));
  return (half * (one + h) + half * x * (one - h * h) * (c * (one + from<T>(3.0) * b * (x * x))))
      .value;
}

inline std::vector<CaseInput> at(std::vector<double> x) {
  return {{"x", "", std::move(x)}, {"dy", "constant(value=1)"}};
}
inline Attributes tanh_form() { return {{"approximate", std::string("tanh")}}; }

inline std::vector<PublicCase> of_backward() {
  constexpr auto local = Direction::backward_local;
  const std::vector<CaseInput> patterns{{"x", "every_pattern"}, {"dy", "normal"}};
  return {
      shown("GELU-01", "the derivative in bf16 at the points of the report", "gelu", local,
            "bf16:fp32:bf16", {3}, at({-3.703125, -5, -8}), {},
            {{"dx", {"-1.44844367064e-3", "-7.14694600179e-6", "-3.97960726109e-14"}}}),
      shown(
          "GELU-01", "a fit of Phi that levels off in the tail: the derivative turns positive",
          "gelu", local, "bf16:fp32:bf16", {65536}, patterns, {}, {},
          backward([](float x, float dy) { return dy * (max(cdf(x), 0x1p-9F) + x * density(x)); })),
      shown("GELU-02", "the derivative as ten kernels, each storing bf16", "gelu", local,
            "bf16:fp32:bf16", {65536}, patterns, {}, {},
            backward([](float x, float dy) { return in_bf16(dy * slope_in<bf16>(x)); })),
      shown("GELU-04", "the derivative taken for 1 above 3.17", "gelu", local, "fp32", {1},
            at({3.171875}), {}, {{"dx", {"1.00751361573"}}},
            backward([](float x, float dy) { return dy * (x > 3.17F ? 1 : slope(x)); })),
      shown("GELU-05", "the derivative at the points of the report", "gelu", local, "fp64", {2},
            at({-3.7, -5}), {}, {{"dx", {"-1.46388726756e-3", "-7.14694600179e-6"}}}),
      shown("GELU-05", "1 + erf, which cancels, where the tail is asked for", "gelu", local, "fp32",
            {4096}, {{"x", "uniform(low=-5, high=-3)"}, {"dy", "constant(value=1)"}}, {}, {},
            by_variant("one_plus_erf")),
      shown("GELU-07", "x^3 overflows in fp16: infinity times 0", "gelu", local, "fp16", {1},
            at({256}), tanh_form(), {{"dx", {"1.00000000000"}}},
            backward([](float x, float dy) { return dy * tanh_slope_in_fp16(x); })),
      shown("GELU-11", "backward with all but the square in bf16", "gelu", local, "bf16:fp32:bf16",
            {4096}, {{"x", "normal"}, {"dy", "normal"}}, tanh_form(), {},
            backward([](float x, float dy) {
              const float t = in_bf16(in_bf16(x * in_bf16(0.79788456F)) * (1 + 0.044715F * x * x));
              const float h = tanh(t), inner = 0.79788456F * (1 + 3 * 0.044715F * x * x);
              return dy * (0.5F * (1 + h) + in_bf16(0.5F * x) * (1 - h * h) * inner);
            })),
  };
}

inline std::vector<PublicCase> of_forward() {
  constexpr auto forth = Direction::forward;
  const std::vector<CaseInput> tail{{"x", "uniform(low=-100, high=-2)"}};
  return {
      shown("GELU-08", "tanh t = (exp 2t - 1) / (exp 2t + 1) by exp(-2t): infinity over infinity",
            "gelu", forth, "fp32", {2}, at({-13.24, -20}), tanh_form(),
            {{"y", {"0.0000000000", "0.0000000000"}}}, forward([](float x) {
              const float w = exp(-2 * (0.79788456F * (x * (1 + 0.044715F * (x * x)))));
              return 0.5F * x * (1 + (1 - w) / (1 + w));
            })),
      shown("GELU-10", "a tanh that saturates at 1.044", "gelu", forth, "fp16:fp32:fp16", {3},
            at({-9, -100, -1500}), tanh_form(), {{"y", {"0.00000", "0.00000", "0.00000"}}},
            forward([](float x) {
              const float t = 0.79788456F * (x * (1 + 0.044715F * (x * x)));
              return 0.5F * x * (1 + max(min(t, 1.044F), -1.044F));
            })),
      shown("GELU-11", "only the square in fp32, x sqrt(2/pi) and x/2 in bf16", "gelu", forth,
            "bf16:fp32:bf16", {4096}, {{"x", "normal"}}, tanh_form(), {}, forward([](float x) {
              const float t = in_bf16(x * in_bf16(0.79788456F)) * (1 + 0.044715F * (x * x));
              return in_bf16(0.5F * x) * (1 + tanh(t));
            })),
      shown("GELU-13", "the tanh form where the erf form is asked for", "gelu", forth, "fp32", {2},
            at({-2.5, -2.69895}), {}, {{"y", {"-0.0155241633"}}}, forward(tanh_value)),
      shown("GELU-13", "the erf form where the tanh form is asked for", "gelu", forth, "fp32", {2},
            at({-2.5, -2.69895}), tanh_form(), {{"y", {"-0.0150842661"}}},
            forward([](float x) { return Forward::value<float>(Op::erfc_form, x); })),
      shown("GELU-14", "the value at -2.5", "gelu", forth, "bf16:fp32:bf16", {1}, at({-2.5}), {},
            {{"y", {"-0.0155241633144"}}}),
      shown("GELU-14", "1 + erf with erf in bf16", "gelu", forth, "bf16:fp32:bf16", {4096}, tail,
            {}, {},
            forward([](float x) { return 0.5F * x * (1 + in_bf16(erf(x * 0.70710678F))); })),
  };
}

}  // namespace gelu_cases

inline std::vector<PublicCase> gelu() {
  std::vector<PublicCase> all = gelu_cases::of_backward();
  for (PublicCase& c : gelu_cases::of_forward()) all.push_back(std::move(c));
  return all;
}

}  // namespace opbound::cases
