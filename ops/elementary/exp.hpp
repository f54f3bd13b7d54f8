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

/// e^(high + low) - 1 - high, with an error of at most 0.08 u (high < 0) or 0.13 u (u = 2^-53).
///
/// With r = high + low rounded, it is high^2/2 + (low + high low) + r^3 q(r) but for low^2/2 <
/// 2^-66. high^2/2 is exact inside the fma. r brings a relative error of 0.72 u, the two products
/// and q 3.2 u, so that r^3 q, at most 0.0063 (high < 0) or 0.0077, is off by 5.4 u times that;
/// rounding the two sums adds u/128 and half an ulp of 0.0537 (u/32) or 0.0678 (u/16); the
/// polynomial adds 2^-61.
OPBOUND_HD inline double exp_remainder(const ReducedExponent& x) {
  const double r = x.high + x.low;
  const double low_part = fma(x.low, x.high, x.low);
  return fma(0.5 * x.high, x.high, fma(r * r * r, exp_tail(r), low_part));
}

/// e^(high + low) as an exact sum of two doubles; the error is that of exp_remainder.
OPBOUND_HD inline DoubleWord exp_words(const ReducedExponent& x) {
  const DoubleWord head = fast_two_sum(1.0, x.high);
  return fast_two_sum(head.high, head.low + exp_remainder(x));
}

/// e^r - 1 for |r| <= 0.34658, rounded a few times.
OPBOUND_HD inline double expm1_reduced(double r) {
  return fma(r * r, fma(r, exp_tail_float(r), 0.5), r);
}

/// x = k ln 2 + r with one double for r, |x| < 800.
struct FastReducedExponent {
  double r;
  double power;  // 2^k
};

OPBOUND_HD inline FastReducedExponent reduce_exponent_fast(double x) {
  const NearestInteger n = nearest_integer(x, log2_e.high);
  const double r = fma(-n.value, ln2.low, fma(-n.value, ln2.high, x));
  return {r, exp2_integer(n.integer)};
}

/// e^x for |x| <= 700, rounded a few times.
OPBOUND_HD inline double exp_fast(double x) {
  const FastReducedExponent reduced = reduce_exponent_fast(x);
  return (expm1_reduced(reduced.r) + 1.0) * reduced.power;
}

/// e^x - 1 for |x| <= 700, rounded a few times.
OPBOUND_HD inline double expm1_fast(double x) {
  const FastReducedExponent reduced = reduce_exponent_fast(x);
  return fma(reduced.power, expm1_reduced(reduced.r), reduced.power - 1.0);
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

/// e^x; error at most 0.82 ulp.
///
/// exp_remainder and the addition of the head's low part err by 0.08 u + u/32 where the significand
/// is below 1 and its ulp is u, by 0.13 u + u/16 where the ulp is 2 u; with the last rounding, 0.63
/// ulp. A subnormal result is rounded once more: 0.63 of an ulp half as large, and 0.5.
OPBOUND_HD inline double exp(double x) {
  const detail::ReducedExponent r = detail::reduce_exponent(detail::clamp(x, -746.0, 710.0));
  const detail::DoubleWord e = detail::exp_words(r);
  return detail::scale(e.high + e.low, r.k);
}

/// e^x, correctly rounded (all floats proved).
OPBOUND_HD inline float exp(float x) {
  return static_cast<float>(detail::exp_fast(detail::clamp(x, -104.0F, 89.0F)));
}

/// 2^x; error at most 0.82 ulp, as exp; exact for an integer x.
OPBOUND_HD inline double exp2(double x) {
  const detail::ReducedExponent r =
      detail::reduce_exponent_of_two(detail::clamp(x, -1076.0, 1025.0));
  const detail::DoubleWord e = detail::exp_words(r);
  return detail::scale(e.high + e.low, r.k);
}

/// 2^x, correctly rounded (all floats proved).
OPBOUND_HD inline float exp2(float x) {
  const double c = detail::clamp(x, -151.0F, 129.0F);
  const detail::NearestInteger n = detail::nearest_integer(c, 1.0);
  const double change = detail::expm1_reduced((c - n.value) * ln2.high);
  const double significand = detail::add_for_float(1.0, change);
  return static_cast<float>(significand * detail::exp2_integer(n.integer));
}

/// e^x - 1; error at most 0.95 ulp.
///
/// Before the last rounding the error is 2^k times 0.112 u (high < 0) or 0.2 u: exp_remainder, and
/// half an ulp of its value again. Its share of an ulp is largest for k = 1 where the result is in
/// [0.41, 0.5): 0.224 u, and ulp = u/2; for k = 0 it is 0.2 u to u/2, and falls with the result.
OPBOUND_HD inline double expm1(double x) {
  if (detail::magnitude(x) < 0x1p-54) return x;  // x^2/2 is below half an ulp
  if (x > 700) return exp(x);
  const detail::DoubleWord e = detail::half_expm1_words(detail::clamp(x, -40.0, 700.0));
  return 2 * (e.high + e.low);
}

/// e^x - 1, correctly rounded (all floats proved).
OPBOUND_HD inline float expm1(float x) {
  const double e = detail::expm1_fast(detail::clamp(x, -40.0F, 90.0F));
  return static_cast<float>(detail::with_sign_of(e, x));
}

}  // namespace opbound
