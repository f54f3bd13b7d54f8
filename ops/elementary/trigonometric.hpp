// sin, cos: x = n pi/2 + r with |r| <= pi/4, exact to 2^-64 |r| for every x.
#pragma once

#include "ops/elementary/polynomials.hpp"

namespace opbound {

namespace detail {

/// x = n pi/2 + high + low, n known modulo 4.
struct ReducedAngle {
  double high;
  double low;
  std::uint64_t quadrant;
};

__extension__ using Uint128 = unsigned __int128;

/// 64 bits of 2/pi from the bit of weight 2^(63 - position) on.
OPBOUND_HD inline std::uint64_t two_over_pi_bits(int position) {
  const int digit = position >> 6;
  const int shift = position & 63;
  const std::uint64_t first = two_over_pi_digit(digit) << shift;
  return shift == 0 ? first : first | (two_over_pi_digit(digit + 1) >> (64 - shift));
}

/// The reduction for finite |x| >= 2^22, in integers (Payne and Hanek 1983).
///
/// x = m 2^e; bits of 2/pi above weight 2^(1 - e) give multiples of 4 quadrants. The next 192 bits
/// times m, modulo 2^192, are x 2/pi modulo 4 with an error below 2^-126 after the last word is
/// dropped; no double lies nearer to a multiple of pi/2 than 2^-62 (Muller 2016, chapter 11), so
/// that 64 bits of r are right.
OPBOUND_HD inline ReducedAngle reduce_large_angle(double x) {
  const std::uint64_t bits = magnitude_bits(x);
  const std::uint64_t m = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
  const int e = static_cast<int>(bits >> 52) - 1075;
  const int position = e + 62;
  const Uint128 low_product = Uint128{m} * two_over_pi_bits(position + 128);
  const Uint128 middle_product =
      Uint128{m} * two_over_pi_bits(position + 64) + static_cast<std::uint64_t>(low_product >> 64);
  const std::uint64_t top =
      m * two_over_pi_bits(position) + static_cast<std::uint64_t>(middle_product >> 64);
  const auto next = static_cast<std::uint64_t>(middle_product);

  const std::uint64_t quadrant = (top + (std::uint64_t{1} << 61)) >> 62;
  const auto fraction = static_cast<std::int64_t>(top - (quadrant << 62));
  // fraction 2^-62 + next 2^-126, as two doubles: 54 bits, then the 43 below, then the rest.
  const auto head = static_cast<double>(fraction);
  const auto rest = static_cast<double>(fraction - static_cast<std::int64_t>(head));
  const double middle = rest + static_cast<double>(next >> 32) * 0x1p-32;
  DoubleWord turn = two_sum(head, middle);
  turn.low += static_cast<double>(next & 0xffffffffULL) * 0x1p-64;

  const DoubleWord r = multiply(turn, {half_pi.high, half_pi.middle});
  const double unit = x < 0 ? -0x1p-62 : 0x1p-62;
  return {r.high * unit, r.low * unit, x < 0 ? 0 - quadrant : quadrant};
}

/// The reduction for |x| < 2^28: three doubles of pi/2 (Cody and Waite 1980), every difference
/// exact (the first by Sterbenz's lemma) but the last, below 2^-105.
OPBOUND_HD inline ReducedAngle reduce_angle(double x) {
  if (!(magnitude(x) < 0x1p28)) return reduce_large_angle(x);
  const NearestInteger n = nearest_integer(x, two_over_pi);
  const DoubleWord first = two_product(n.value, half_pi.high);
  const DoubleWord second = two_product(n.value, half_pi.middle);
  const DoubleWord a = two_sum(x - first.high, -first.low);
  const DoubleWord b = two_sum(a.high, -second.high);
  const double low = a.low + (b.low - fma(n.value, half_pi.low, second.low));
  const DoubleWord r = fast_two_sum(b.high, low);
  return {r.high, r.low, static_cast<std::uint64_t>(n.integer)};
}

/// As reduce_angle, but r within 2^-52 |r| for a float x: floats stay 2^-31 from multiples of pi/2,
/// and the first difference, at most |r| + 2^-32, is rounded once.
OPBOUND_HD inline ReducedAngle reduce_angle_of_float(double x) {
  if (!(magnitude(x) < 0x1p22)) return reduce_large_angle(x);
  const NearestInteger n = nearest_integer(x, two_over_pi);
  const double r = fma(-n.value, half_pi.middle, fma(-n.value, half_pi.high, x));
  return {r, 0.0, static_cast<std::uint64_t>(n.integer)};
}

/// sin(high + low), |high| <= 0.786, as a sum of two doubles; with its rounding, an error of at
/// most 0.8 ulp.
///
/// The second is at most 0.079. high^3 and the polynomial bring relative errors of 2.2 u, their sum
/// u/16, the polynomial 2^-57.8 * 0.786: 0.26 u in all where the ulp is u, and less, as the cube,
/// where it is smaller.
OPBOUND_HD inline DoubleWord sin_reduced(const ReducedAngle& r) {
  const double z = r.high * r.high;
  return {r.high, fma(r.high * z, sin_tail(z), r.low * fma(-0.5, z, 1.0))};
}

/// cos(high + low), |high| <= 0.786, as a sum of two doubles; with its rounding, an error of at
/// most 0.6 ulp.
///
/// 1 - high^2/2 is exact: its parts are the head's two and the error of the square. high^4 times
/// the polynomial, at most 0.016, errs by 3.5 u of that, and the result is at least 0.7 (ulp = u).
OPBOUND_HD inline DoubleWord cos_reduced(const ReducedAngle& r) {
  const double z = r.high * r.high;
  const double z_error = fma(r.high, r.high, -z);
  const DoubleWord head = fast_two_sum(1.0, -0.5 * z);
  const double linear = fma(-r.high, r.low, -0.5 * z_error);
  return {head.high, head.low + fma(z * z, cos_tail(z), linear)};
}

/// sin(n pi/2 + r), n = quadrant modulo 4.
OPBOUND_HD inline DoubleWord sin_of(const ReducedAngle& r, std::uint64_t quadrant) {
  const DoubleWord y = (quadrant & 1) != 0 ? cos_reduced(r) : sin_reduced(r);
  const double sign = (quadrant & 2) != 0 ? -1.0 : 1.0;
  return {sign * y.high, sign * y.low};
}

}  // namespace detail

/// sin(x) of every finite x; error at most 0.8 ulp. NaN at infinity.
OPBOUND_HD inline double sin(double x) {
  if (detail::magnitude(x) < 0x1p-27) return x;  // x^3/6 is below half an ulp
  if (!(detail::magnitude(x) < detail::infinity)) return detail::not_a_number;
  const detail::ReducedAngle r = detail::reduce_angle(x);
  const detail::DoubleWord y = detail::sin_of(r, r.quadrant);
  return y.high + y.low;
}

/// cos(x) of every finite x; error at most 0.8 ulp (where it is a sine). NaN at infinity.
OPBOUND_HD inline double cos(double x) {
  if (!(detail::magnitude(x) < detail::infinity)) return detail::not_a_number;
  const detail::ReducedAngle r = detail::reduce_angle(x);
  const detail::DoubleWord y = detail::sin_of(r, r.quadrant + 1);
  return y.high + y.low;
}

/// sin(x), correctly rounded (all floats proved).
OPBOUND_HD inline float sin(float x) {
  if (detail::magnitude(x) < 0x1p-27F) return x;  // x^3/6 is far below half an ulp
  if (!(detail::magnitude(x) < detail::infinity)) return std::numeric_limits<float>::quiet_NaN();
  const detail::ReducedAngle r = detail::reduce_angle_of_float(x);
  const detail::DoubleWord y = detail::sin_of(r, r.quadrant);
  return static_cast<float>(detail::add_for_float(y.high, y.low));
}

/// cos(x), correctly rounded (all floats proved).
OPBOUND_HD inline float cos(float x) {
  if (!(detail::magnitude(x) < detail::infinity)) return std::numeric_limits<float>::quiet_NaN();
  const detail::ReducedAngle r = detail::reduce_angle_of_float(x);
  const detail::DoubleWord y = detail::sin_of(r, r.quadrant + 1);
  return static_cast<float>(detail::add_for_float(y.high, y.low));
}

}  // namespace opbound
