// pow(x, y) = e^(y log x), the logarithm to 2^-65.
#pragma once

#include "ops/elementary/exp.hpp"
#include "ops/elementary/log.hpp"

namespace opbound {

namespace detail {

/// log(x) for a positive finite x, within 2^-64 |log(x)|.
///
/// With s = f / (2 + f) and z = s^2 <= 0.0295: log(1 + f) = s (2 + z (2/3 + z q(z))). All is done
/// in double words but z q(z) <= 0.012, which errs by 0.02 u: times z, 2^-64.7 of the result, and
/// the polynomial 2^-76.
OPBOUND_HD inline DoubleWord log_words(double x) {
  const bool is_subnormal = x < fp64.smallest_normal();
  Decomposed d = decompose(is_subnormal ? x * 0x1p54 : x);
  if (is_subnormal) d.k -= 54;
  const double f = d.fraction;
  const DoubleWord divisor = fast_two_sum(2.0, f);
  const double s_high = f / divisor.high;
  const double residual = fma(-s_high, divisor.high, f) - s_high * divisor.low;
  const DoubleWord s{s_high, residual / divisor.high};
  const DoubleWord z = multiply(s, s);
  const DoubleWord inner =
      fast_two_sum(2 * one_third.high, fma(z.high, log_tail_long(z.high), 2 * one_third.low));
  const DoubleWord relative = multiply(z, inner);  // log(1 + f) = s (2 + relative)
  const DoubleWord factor = fast_two_sum(2.0, relative.high);
  const DoubleWord log_1p = multiply(s, {factor.high, factor.low + relative.low});
  const DoubleWord head = fast_two_sum(d.k * ln2_split.high, log_1p.high);
  return fast_two_sum(head.high, head.low + fma(d.k, ln2_split.low, log_1p.low));
}

/// |x|^y for finite x != 0 and finite y != 0; error at most 0.94 ulp.
///
/// |y log(x)| <= 746 carries 746 * 2^-64.7 = 0.25 u of absolute, so e^... of relative error: 0.25
/// ulp more than exp, and half of that where the result is subnormal.
OPBOUND_HD inline double pow_of_magnitude(double x, double y) {
  const DoubleWord log_x = log_words(magnitude(x));
  const DoubleWord p = two_product(y, log_x.high);
  if (p.high > 710) return infinity;
  if (p.high < -746) return 0;
  ReducedExponent r = reduce_exponent(p.high);
  r.low += fma(y, log_x.low, p.low);
  const DoubleWord e = exp_words(r);
  return scale(e.high, r.k);
}

enum class Parity : unsigned char { not_an_integer, even, odd };

OPBOUND_HD inline Parity parity(double y) {
  const double a = magnitude(y);
  if (a >= 0x1p53) return Parity::even;
  const auto integer = static_cast<std::int64_t>(a);
  if (static_cast<double>(integer) != a) return Parity::not_an_integer;
  return (integer & 1) != 0 ? Parity::odd : Parity::even;
}

}  // namespace detail

/// x^y; error at most 1 ulp, special values as IEEE 754-2019, 9.2.1.
OPBOUND_HD inline double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return detail::not_a_number;
  const double a = detail::magnitude(x);
  if (detail::magnitude(y) == detail::infinity)
    return a == 1 ? 1 : (a > 1) == (y > 0) ? detail::infinity : 0;
  const detail::Parity parity = detail::parity(y);
  const bool is_zero_or_infinite = a == 0 || a == detail::infinity;
  if (x < 0 && !is_zero_or_infinite && parity == detail::Parity::not_an_integer)
    return detail::not_a_number;
  const double result = !is_zero_or_infinite  ? detail::pow_of_magnitude(x, y)
                        : (a == 0) == (y > 0) ? 0
                                              : detail::infinity;
  return parity == detail::Parity::odd ? detail::with_sign_of(result, x) : result;
}

/// x^y; error at most 1 ulp (of fp32), special values as IEEE 754-2019, 9.2.1.
OPBOUND_HD inline float pow(float x, float y) {
  return static_cast<float>(pow(static_cast<double>(x), static_cast<double>(y)));
}

}  // namespace opbound
