// exp, exp2, expm1: the argument is k ln 2 + r with |r| <= ln(2)/2, and e^r = 1 + r + r^2 q(r).
#pragma once

#include "ops/elementary/polynomials.hpp"
#include "ops/real.hpp"

namespace opbound {

namespace detail {

/// The real number k ln 2 + high + low, |high| <= 0.34658.
struct ReducedExponent {
  double high;
  double low;
  std::int64_t k;
};

/// x = k ln 2 + high + low to within 2^-86, for |x| < 800.
///
/// n * ln2_split.high is exact (11 and 42 bits), and so is high: a multiple of the smaller of
/// 2^-43 and ulp(x), and below 0.35.
OPBOUND_HD inline ReducedExponent reduce_exponent(double x) {
  const NearestInteger n = nearest_integer(x, log2_e.high);
  return {fma(-n.value, ln2_split.high, x), -n.value * ln2_split.low, n.integer};
}

/// x ln 2 = k ln 2 + high + low, for |x| < 2000.
OPBOUND_HD inline ReducedExponent reduce_exponent_of_two(double x) {
  const NearestInteger n = nearest_integer(x, 1.0);
  const double fraction = x - n.value;
  const double high = fraction * ln2.high;
  return {high, fma(fraction, ln2.high, -high) + fraction * ln2.low, n.integer};
}

/// e^(high + low) - 1 - high for the reduced exponent, with |error| <= 0.17 u where high < 0 and
/// 0.28 u elsewhere (u = 2^-53).
///
/// With r = high + low rounded and p = r^2 q(r) <= 0.0537 (r < 0) or 0.0678: r, r^2 and q bring
/// relative errors of at most 2 * 0.37 u, 0.53 u and 0.8 u, so 2.1 u p; the last addition brings
/// ulp(0.06)/2 = u/32 (r < 0) or u/16; the polynomial 2^-57.7 e^r <= 0.04 u e^r.
OPBOUND_HD inline double exp_remainder(const ReducedExponent& x) {
  const double r = x.high + x.low;
  return fma(r * r, exp_tail(r), x.low);
}

/// e^(high + low) as an exact sum of two doubles; the error is that of exp_remainder.
OPBOUND_HD inline DoubleWord exp_words(const ReducedExponent& x) {
  const DoubleWord head = fast_two_sum(1.0, x.high);
  return fast_two_sum(head.high, head.low + exp_remainder(x));
}

/// e^x within 1.6 ulp for |x| <= 700; for other |x| < 800, whatever the exponent field wraps to.
OPBOUND_HD inline double exp_fast(double x) {
  const NearestInteger n = nearest_integer(x, log2_e.high);
  const double r = fma(-n.value, ln2.low, fma(-n.value, ln2.high, x));
  return (fma(r * r, exp_tail(r), r) + 1.0) * exp2_integer(n.integer);
}

/// e^x - 1 for |x| <= 700, within a few ulp.
OPBOUND_HD inline double expm1_fast(double x) {
  const NearestInteger n = nearest_integer(x, log2_e.high);
  const double r = fma(-n.value, ln2.low, fma(-n.value, ln2.high, x));
  const double power = exp2_integer(n.integer);
  return fma(power, fma(r * r, exp_tail(r), r), power - 1.0);
}

/// (e^x - 1) / 2 for |x| < 710 (halved, so that 2^k does not overflow), 2^-1000 <= |x|.
///
/// 2^k r.high is exact, and |2^k - 1| >= |2^k r.high| for k != 0 while 2^k - 1 = 0 for k = 0, so
/// that the only errors are those of exp_remainder, 2^k times, and of the sum's low part.
OPBOUND_HD inline DoubleWord half_expm1_words(double x) {
  const ReducedExponent reduced = reduce_exponent(x);
  const double power = exp2_integer(reduced.k - 1);
  const DoubleWord integer = two_sum(power, -0.5);
  const DoubleWord head = fast_two_sum(integer.high, power * reduced.high);
  return fast_two_sum(head.high, head.low + integer.low + power * exp_remainder(reduced));
}

}  // namespace detail

/// e^x; error at most 0.8 ulp.
///
/// exp_remainder's error is 0.17 u where the result may be below 1 and ulp = u, 0.28 u where ulp =
/// 2 u; the sum of its two parts is rounded once.
OPBOUND_HD inline double exp(double x) {
  const detail::ReducedExponent r = detail::reduce_exponent(detail::clamp(x, -746.0, 710.0));
  const detail::DoubleWord e = detail::exp_words(r);
  return detail::scale(e.high + e.low, r.k);
}

/// e^x, correctly rounded (all floats proved).
OPBOUND_HD inline float exp(float x) {
  return static_cast<float>(detail::exp_fast(detail::clamp(x, -104.0, 89.0)));
}

/// 2^x; error at most 0.8 ulp, as exp; exact for an integer x.
OPBOUND_HD inline double exp2(double x) {
  const detail::ReducedExponent r =
      detail::reduce_exponent_of_two(detail::clamp(x, -1076.0, 1025.0));
  const detail::DoubleWord e = detail::exp_words(r);
  return detail::scale(e.high + e.low, r.k);
}

/// 2^x, correctly rounded (all floats proved).
OPBOUND_HD inline float exp2(float x) {
  const detail::NearestInteger n = detail::nearest_integer(detail::clamp(x, -151.0, 129.0), 1.0);
  const double r = (detail::clamp(x, -151.0, 129.0) - n.value) * ln2.high;
  const double e = fma(r * r, detail::exp_tail(r), r) + 1.0;
  return static_cast<float>(e * detail::exp2_integer(n.integer));
}

/// e^x - 1; error at most 1 ulp.
///
OPBOUND_HD inline double expm1(double x) {
  if (detail::magnitude(x) < 0x1p-54) return x;  // x^2/2 is below half an ulp
  if (x > 700) return exp(x);
  const detail::DoubleWord e = detail::half_expm1_words(detail::clamp(x, -40.0, 700.0));
  return 2 * (e.high + e.low);
}

/// e^x - 1, correctly rounded (all floats proved).
OPBOUND_HD inline float expm1(float x) {
  const double e = detail::expm1_fast(detail::clamp(x, -40.0, 90.0));
  return static_cast<float>(detail::with_sign_of(e, x));
}

}  // namespace opbound
