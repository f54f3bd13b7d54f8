// tanh(x) = E / (E + 2), E = e^(2 x) - 1.
#pragma once

#include "ops/elementary/exp.hpp"

namespace opbound {

/// tanh(x); error at most 0.85 ulp.
///
/// With h = E / 2 as a double word, tanh = h / (1 + h): a quotient, and its residual times the
/// reciprocal once more, which leaves a few u^2. An error d of h changes it by d / (1 + h)^2, so
/// that its share of an ulp is largest where h is in [0.21, 0.25] (in expm1: k = 1, high < 0), 0.08
/// u to an ulp of u/4.
OPBOUND_HD inline double tanh(double x) {
  const double a = detail::magnitude(x);
  if (a < 0x1p-28) return x;  // x^3/3 is below half an ulp
  const detail::DoubleWord h = detail::half_expm1_words(2 * detail::clamp(a, 0.0, 20.0));
  const detail::DoubleWord sum = detail::two_sum(1.0, h.high);
  const double divisor_low = sum.low + h.low;
  const double reciprocal = 1.0 / sum.high;
  const double quotient = h.high * reciprocal;
  const double residual = fma(-quotient, sum.high, h.high) + fma(-quotient, divisor_low, h.low);
  return detail::with_sign_of(fma(residual, reciprocal, quotient), x);
}

/// tanh(x), correctly rounded (all floats proved).
OPBOUND_HD inline float tanh(float x) {
  const float a = detail::magnitude(x);
  const double e = detail::expm1_fast(2 * detail::clamp(a, 0.0F, 20.0F));
  return static_cast<float>(detail::with_sign_of(e / (e + 2.0), x));
}

}  // namespace opbound
