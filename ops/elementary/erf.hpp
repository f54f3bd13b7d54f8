// erf, erfc: below 3/4, erf(x) = x + x p(x^2); above, erfc(x) = e^(-x^2) g(t) / (x + 3) with
// t = (x - 3) / (x + 3), which brings [3/4, inf) to [-0.6, 1) (Shepherd and Laframboise 1981).
#pragma once

#include "ops/elementary/exp.hpp"

namespace opbound {

namespace detail {

inline constexpr double erf_split = 0.75;

/// erf(x) for |x| < 0.75; error at most 0.9 ulp.
///
/// x p is exact inside the fma; p, between -0.06 and 0.13, is off by 2^-56.1 (polynomial) and 0.2 u
/// (roundings), so erf(x) by 0.32 u |x|, where an ulp is at least u |erf(x)| >= 0.94 u |x|.
OPBOUND_HD inline double erf_small(double x) { return fma(x, erf_tail(x * x), x); }

/// The number significand * 2^k.
struct ScaledDouble {
  double significand;
  std::int64_t k;
};

/// (x - 3) / (x + 3) and 1 / (x + 3) as double words.
struct ErfcVariable {
  DoubleWord t;
  DoubleWord reciprocal;
};

OPBOUND_HD inline ErfcVariable erfc_variable(double x) {
  const DoubleWord above = two_sum(x, 3.0);
  const DoubleWord below = two_sum(x, -3.0);
  const double w = 1.0 / above.high;
  const double w_low = w * fma(-w, above.low, fma(-w, above.high, 1.0));
  const double t = below.high * w;
  const double residual = fma(-t, above.high, below.high) + fma(-t, above.low, below.low);
  return {fast_two_sum(t, residual * w), {w, w_low}};
}

/// erfc(x) for x in [0.75, 27.3], within 1.4 u and its last rounding, relatively.
///
/// e^(-x^2), with the low part of x^2 in the reduced exponent, errs by 0.2 u (exp_remainder), the
/// slope of g by 1.5 u of itself, where |t slope| / g <= 0.72, and by what the low part of t
/// changes in it, 0.1 u; all products and the reciprocal are double words.
OPBOUND_HD inline ScaledDouble erfc_scaled(double x) {
  const DoubleWord square = two_product(x, x);
  ReducedExponent r = reduce_exponent(-square.high);
  r.low -= square.low;
  const DoubleWord e = exp_words(r);

  const ErfcVariable v = erfc_variable(x);
  const double slope = erfc_factor_tail(v.t.high);
  const DoubleWord change = two_product(v.t.high, slope);
  const DoubleWord head = fast_two_sum(erfc_factor_at_zero.high, change.high);
  const double g_low = head.low + (change.low + fma(v.t.low, slope, erfc_factor_at_zero.low));
  const DoubleWord y = multiply(multiply({head.high, g_low}, v.reciprocal), e);
  return {y.high, r.k};
}

/// erfc(x) for x in [0.75, 10.1], with the few units of 2^-53 of its nine roundings.
OPBOUND_HD inline double erfc_fast(double x) {
  const double w = 1.0 / (x + 3.0);
  return exp_fast(-(x * x)) * (w * erfc_factor_float((x - 3.0) * w));
}

}  // namespace detail

/// erf(x); error at most 1 ulp.
///
/// From 3/4 on it is 1 - c, c <= 0.29, in [0.71, 1) with ulp = u: c errs by 0.75 u c near 3/4 (the
/// slope's share is less there) and u/4 for its rounding, the difference by u/2.
OPBOUND_HD inline double erf(double x) {
  const double a = detail::magnitude(x);
  if (a < detail::erf_split) return detail::erf_small(x);
  const detail::ScaledDouble c = detail::erfc_scaled(detail::clamp(a, 0.0, 6.0));
  return detail::with_sign_of(1.0 - detail::scale(c.significand, c.k), x);
}

/// erf(x), correctly rounded (all floats proved).
OPBOUND_HD inline float erf(float x) {
  const double a = detail::clamp(detail::magnitude(x), 0.0F, 4.0F);
  const double y = a < detail::erf_split ? detail::erf_small(a) : 1.0 - detail::erfc_fast(a);
  return static_cast<float>(detail::with_sign_of(y, x));
}

/// 1 - erf(x); error at most 2 ulp.
///
/// Below 3/4: 1 - x exactly, minus x p with the error of erf_small, 0.3 u, and u/16 for its
/// rounding: 0.61 ulp where the result is above 1/4, and the last rounding. Above: 1.4 + 0.5 ulp; a
/// subnormal result is rounded once more, 0.95 + 0.5 of the smallest subnormal.
OPBOUND_HD inline double erfc(double x) {
  const double a = detail::magnitude(x);
  if (a < detail::erf_split) {
    const detail::DoubleWord head = detail::fast_two_sum(1.0, -x);
    return head.high + fma(-x, detail::erf_tail(x * x), head.low);
  }
  const detail::ScaledDouble c = detail::erfc_scaled(detail::clamp(a, 0.0, 27.3));
  const double y = detail::scale(c.significand, c.k);
  return x < 0 ? 2.0 - y : y;
}

/// 1 - erf(x), correctly rounded (all floats proved).
OPBOUND_HD inline float erfc(float x) {
  const double a = detail::clamp(detail::magnitude(x), 0.0F, 10.1F);
  if (a < detail::erf_split) {
    const double y = detail::erf_small(a);
    return static_cast<float>(detail::add_for_float(1.0, x < 0 ? y : -y));
  }
  const double y = detail::erfc_fast(a);
  return static_cast<float>(x < 0 ? 2.0 - y : y);
}

}  // namespace opbound
