// log, log1p: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); s = f / (2 + f);
// log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + s^2 q(s^2)).
#pragma once

#include "ops/elementary/polynomials.hpp"
#include "ops/real.hpp"

namespace opbound {

namespace detail {

/// The number 2^k (1 + fraction).
struct Decomposed {
  double k;
  double fraction;
};

/// A positive normal number, decomposed exactly.
OPBOUND_HD inline Decomposed decompose(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t offset = bits - std::bit_cast<std::uint64_t>(sqrt_half.high);
  const std::int64_t k = static_cast<std::int64_t>(offset) >> 52;
  const auto significand = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(k) << 52));
  return {static_cast<double>(k), significand - 1.0};
}

/// log(2^k (1 + fraction) (1 + low)) for |low| <= 2^-53, as a sum high + low still to be rounded;
/// with that rounding, an error of at most 0.9 ulp.
///
/// k ln2_split.high is exact, so the head is. The worst case is k = -1, f near 0.41, where the
/// result is -0.35 and ulp = u/2 (u = 2^-53): s errs by 1.6 u relatively, z by 4.2 u, f^2/2 = 0.082
/// by 0.8 u, their product 0.017 by 4.6 u, that is 0.077 u; the two additions to it by u/64 each;
/// the last fma, 0.065, by u/16; the polynomial by 0.01 u. For k = 0 all of these fall as f^2.
OPBOUND_HD inline DoubleWord log_decomposed(const Decomposed& x, double low) {
  const double f = x.fraction;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double minus_half_square = -0.5 * f * f;
  const double product = fma(z, log_tail(z), -minus_half_square) * s;
  const DoubleWord head = fast_two_sum(x.k * ln2_split.high, f);
  const double small = fma(x.k, ln2_split.low, product) + (head.low + low);
  return {head.high, fma(-0.5 * f, f, small)};
}

/// The logarithm where its argument u is 0, negative, infinite or NaN.
OPBOUND_HD inline double log_special(double u) {
  return u == 0 ? -infinity : u < 0 ? not_a_number : u;
}

OPBOUND_HD inline double sum(DoubleWord x) { return x.high + x.low; }

/// high + low as a float: a logarithm of a float can lie within half an ulp of fp64 from a midpoint
/// of two floats.
OPBOUND_HD inline float sum_as_float(DoubleWord x) {
  return static_cast<float>(add_for_float(x.high, x.low));
}

OPBOUND_HD inline bool is_positive_finite(double x) { return x > 0 && x < infinity; }

}  // namespace detail

/// log(x); error at most 0.9 ulp. -inf at 0, NaN below.
OPBOUND_HD inline double log(double x) {
  if (!detail::is_positive_finite(x)) return detail::log_special(x);
  const bool is_subnormal = x < fp64.smallest_normal();
  detail::Decomposed d = detail::decompose(is_subnormal ? x * 0x1p54 : x);
  if (is_subnormal) d.k -= 54;
  return detail::sum(detail::log_decomposed(d, 0.0));
}

/// log(x), correctly rounded (all floats proved).
OPBOUND_HD inline float log(float x) {
  const double u = x;
  if (!detail::is_positive_finite(u)) return static_cast<float>(detail::log_special(u));
  return detail::sum_as_float(detail::log_decomposed(detail::decompose(u), 0.0));
}

/// log(1 + x); error at most 0.9 ulp. -inf at -1, NaN below.
///
/// 1 + x = u + low exactly, so the logarithm is log(u) + low / u to within (low / u)^2 / 2 <= u^2.
OPBOUND_HD inline double log1p(double x) {
  if (detail::magnitude(x) < 0x1p-54) return x;
  if (!detail::is_positive_finite(1.0 + x)) return detail::log_special(1.0 + x);
  const detail::DoubleWord u = detail::two_sum(1.0, x);
  const detail::Decomposed d = detail::decompose(u.high);
  if (d.k == 0) return detail::sum(detail::log_decomposed({0.0, x}, 0.0));
  return detail::sum(detail::log_decomposed(d, u.low / u.high));
}

/// log(1 + x), correctly rounded (all floats proved).
///
/// 1 + x is exact in double unless |x| < 2^-29, where k = 0, or x > 2^28, where the part lost
/// changes the result by less than 2^-53.
OPBOUND_HD inline float log1p(float x) {
  if (x == 0) return x;
  const double u = 1.0 + static_cast<double>(x);
  if (!detail::is_positive_finite(u)) return static_cast<float>(detail::log_special(u));
  detail::Decomposed d = detail::decompose(u);
  if (d.k == 0) d.fraction = x;
  return detail::sum_as_float(detail::log_decomposed(d, 0.0));
}

}  // namespace opbound
