// DoubleDouble's elementary functions. Included by double_double.hpp; bounds in units of u^2 =
// 2^-106 are first-order sums of the operations' bounds, with the stated figure well above the sum.
//
// Shared steps and their bounds: a sum 3 (of a double 2), a product 4 (by a double 2), a quotient
// 15, a table's pair 1. The tables and their truncation come from
// tools/python/fit_double_double.py; tools/python/prove_functions.py has the errors of exp and of
// every series proved by Sollya and Gappa.
#pragma once

#include "reference/double_double.hpp"
#include "reference/double_double_erfcx.hpp"

namespace opbound {
namespace double_double {

/// c_0 + c_1 x + ..., the leading coefficients pairs and the rest in double, from highest to
/// lowest.
template <int pairs, int singles>
OPBOUND_HD inline DoubleDouble polynomial(const double* c, DoubleDouble x) {
  const double* const single = c + 2 * pairs;
  double tail = single[singles - 1];
  for (int k = singles - 2; k >= 0; --k) tail = fused(tail, x.high, single[k]);
  const auto pair = [c](int k) { return DoubleDouble{c[2 * k], c[2 * k + 1]}; };
  DoubleDouble sum = pair(pairs - 1) + multiply(x, tail);
  for (int k = pairs - 2; k >= 0; --k) sum = pair(k) + x * sum;
  return sum;
}

/// The integer nearest to x, for |x| < 2^51; adding 1.5 * 2^52 leaves no fraction.
OPBOUND_HD constexpr double nearest_integer(double x) {
  constexpr double shift = 0x1.8p52;
  return (x + shift) - shift;
}

/// 2^exponent (1 + fraction).
struct Power {
  DoubleDouble fraction;
  int exponent;
};

/// exp(k ln2 / 64 + r) for |r| <= 0.0055: 2^exponent 2^(j / 64) exp(r), j in [-32, 31].
///
/// q = exp(r) - 1 = r + r^2 (1/2 + ...): the Taylor polynomial of degree 11 truncates at 2^-111
/// |q|, its terms in double from r^7 on add 2^-108 |q|, and r^2 (...) <= 0.003 |q|; error of r
/// aside, 3.1. Then fraction = M + (q + M q) with M = 2^(j/64) - 1 and, unless M = 0, |q| < |M|
/// / 1.9.
OPBOUND_HD inline Power power(double k, DoubleDouble r) {
  const int shifted = static_cast<int>(k) + 32;
  const double* const row = power_minus_one(shifted & 63);
  const DoubleDouble m{row[0], row[1]};
  const DoubleDouble q = r + (r * r) * polynomial<5, 5>(exp_series(), r);
  return {m + (q + m * q), shifted >> 6};
}

/// exp(x) for |x| < 2^10. x - k ln2/64 with ln2/64 in three parts, k times the first exact, and the
/// difference from x.high too (Sterbenz 1974; for |k| > 1 both are multiples of 2^-60 close to each
/// other): r has the errors of a sum and of a sum with a double, 5, and 2^-135.
OPBOUND_HD inline Power exp_power(DoubleDouble x) {
  const double k = nearest_integer(x.high * sixty_four_over_ln2);
  const double rest = fused(-k, ln2_over_64_first, x.high);
  const DoubleDouble r = two_sum(rest, x.low) - two_product(k, ln2_over_64_second);
  return power(k, add(r, -(k * ln2_over_64_third)));
}

/// 2^exponent (1 + fraction). |fraction| <= 0.42 carries 1 |M| + 3 |fraction| + 14 |q| (1 + M), at
/// most 1.8 for M > 0 and 1.3 for M < 0, the sum 2 of itself: in all below 4 relative to the power.
OPBOUND_HD inline DoubleDouble value_of(Power p) { return scale(add(p.fraction, 1.0), p.exponent); }

constexpr double exp_argument_min = -665;  // exp(-665) > 2^-960
constexpr double exp_argument_max = 709;   // exp(709) < 2^1023

}  // namespace double_double

/// exp(x): 0 below -665, where exp(x) < 2^-959; not decided above 709. Error: below 4.
OPBOUND_HD inline DoubleDouble exp(DoubleDouble x) {
  if (!is_finite(x) || x.high > double_double::exp_argument_max) return double_double::undecided();
  if (x.high < double_double::exp_argument_min) return {};
  return double_double::value_of(double_double::exp_power(x));
}

/// 2^x: 0 below -960; not decided from 1023 on. r = (x - k/64) ln2 carries a product and a pair, 5;
/// the rest as in exp.
OPBOUND_HD inline DoubleDouble exp2(DoubleDouble x) {
  if (!is_finite(x) || x.high >= 1023) return double_double::undecided();
  if (x.high < -960) return {};
  const double k = double_double::nearest_integer(64 * x.high);
  const DoubleDouble ln2{double_double::ln2_pair_first, double_double::ln2_pair_second};
  return double_double::value_of(
      double_double::power(k, double_double::two_sum(x.high - k / 64, x.low) * ln2));
}

/// exp(x) - 1; not decided above 709.
///
/// Error, exponent = 0: the fraction itself; where M and q differ in sign it is at least |M| / 2,
/// so 1 * 2 + (5 + 3.1 + 3 + 0.1) * 1 + 3 < 18. Else exp(x) >= 1.41 or <= 0.71, so that the 4 of
/// exp count at most 1.41 / 0.41 = 3.5 times, and the sum adds 2: 16.
OPBOUND_HD inline DoubleDouble expm1(DoubleDouble x) {
  if (!is_finite(x) || x.high > double_double::exp_argument_max) return double_double::undecided();
  if (x.high < double_double::exp_argument_min) return {-1, 0};
  const double_double::Power p = double_double::exp_power(x);
  return p.exponent == 0 ? p.fraction : double_double::add(double_double::value_of(p), -1.0);
}

namespace double_double {

/// log(1 + z) = 2 atanh(s) = s (2 + 2/3 s^2 + ...), s = z / (2 + z), for |z| <= 0.0122; eight terms
/// truncate at 2^-122. Error beyond z's own: s 17, the polynomial 3.1 (s^2 <= 2^-14.7 times the
/// rest), the product 4: 25.
OPBOUND_HD inline DoubleDouble log1p_small(DoubleDouble z) {
  const DoubleDouble s = z / add(z, 2.0);
  return s * polynomial<4, 4>(log_series(), s * s);
}

}  // namespace double_double

/// log(x) = e ln2 - log(r) + log(1 + z) with x = 2^e m, m in [0.707, 1.4141], r close to 1 / m and
/// z = m r - 1; not decided below 2^-1000, hence neither for 0 and negative numbers.
///
/// z is the sum of two exact pairs: 3. Error for e != 0, |log x| >= 0.346: e ln2 has 3 and is at
/// most twice the result, log(r) 1, log(1 + z) 28 * 0.0122 / 0.346, two sums 3 * 1.04 + 3:
/// below 15. For e = 0 and r != 1, |log x| >= 0.0077, |log r| is at most 2.2 times and |log(1 + z)|
/// at most 1.2 times the result: 2.2 + 1.2 * 28 + 3 < 39. For r = 1, z is exact or 3: 28.
OPBOUND_HD inline DoubleDouble log(DoubleDouble x) {
  if (!(x.high >= 0x1p-1000) || !is_finite(x)) return double_double::undecided();
  int e = static_cast<int>(std::bit_cast<std::uint64_t>(x.high) >> 52) - 1023;
  DoubleDouble m = double_double::scale(x, -e);
  if (m.high > 1.4140625) {
    m = double_double::scale(m, -1);
    ++e;
  }
  const double* const row = double_double::reciprocal_and_log(
      static_cast<int>(double_double::nearest_integer(64 * m.high)) - 45);
  const DoubleDouble product = double_double::two_product(m.high, row[0]);
  const DoubleDouble z =
      double_double::two_sum(product.high - 1, product.low) +  // exact: Sterbenz 1974
      double_double::two_product(m.low, row[0]);
  const DoubleDouble ln2{double_double::ln2_pair_first, double_double::ln2_pair_second};
  const DoubleDouble coarse = double_double::multiply(ln2, e) + DoubleDouble{row[1], row[2]};
  return coarse + double_double::log1p_small(z);
}

/// log(1 + x); not decided for 1 + x < 2^-1000.
///
/// Beyond 2^-7, 1 + x is split exactly into y and a rest below u^2 |y|, and log(1 + x) = log(y) +
/// rest / y up to the rest's square: log's 39 and a sum, 2.
OPBOUND_HD inline DoubleDouble log1p(DoubleDouble x) {
  if (!is_finite(x)) return double_double::undecided();
  if (abs(x.high) <= 0x1p-7) return double_double::log1p_small(x);
  const DoubleDouble sum = double_double::two_sum(x.high, 1.0);
  const DoubleDouble low = double_double::two_sum(x.low, sum.low);
  const DoubleDouble y = double_double::fast_two_sum(sum.high, low.high);
  return double_double::add(log(y), low.low / y.high);
}

/// tanh(x) = E / (E + 2), E = exp(2 |x|) - 1; beyond 40 the sign, within 2 exp(-80) < 2^-114.
///
/// Error: tanh's logarithm moves by 2 / (E + 2) <= 1 times E's relative error, 17; E + 2 adds 2,
/// the quotient 15: 34.
OPBOUND_HD inline DoubleDouble tanh(DoubleDouble x) {
  if (!is_finite(x)) return double_double::undecided();
  const double sign = is_negative(x) ? -1.0 : 1.0;
  if (abs(x.high) > 40) return {sign, 0};
  const DoubleDouble e = expm1(double_double::scale(abs(x), 1));
  const DoubleDouble result = e / double_double::add(e, 2.0);
  return is_negative(x) ? -result : result;
}

namespace double_double {

/// erf(x) = x (2 / sqrt(pi) - ...) for |x| <= 1/2: 21 terms truncate at 2^-112. Error: the pair 1,
/// x^2 times the rest at most 0.09 * 16, a sum 3, a product 4: below 10.
OPBOUND_HD inline DoubleDouble erf_small(DoubleDouble x) {
  return x * polynomial<12, 9>(erf_series(), x * x);
}

/// Where x in [0, 26) lies among erfcx_series's intervals: eight on [0, 1], eight in each octave
/// above.
struct ErfcxInterval {
  int index;
  double middle;
};
OPBOUND_HD inline ErfcxInterval erfcx_interval(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const int octave = static_cast<int>(bits >> 52) - 1023;
  const int eighth = static_cast<int>(bits >> 49) & 7;
  const int linear = static_cast<int>(8 * x);
  if (x < 1) return {linear, 0.125 * linear + 0.0625};
  return {8 + 8 * octave + eighth, power_of_two(octave) * (1.0625 + 0.125 * eighth)};
}

/// exp(x^2) erfc(x) for x in [0, 26): a polynomial around the middle of x's interval, truncated at
/// 2^-111; terms in double add 2^-105. Error: c_0 1, (x - middle) times the rest at most 0.08 * 16,
/// a sum 3, terms in double 2: below 8.
OPBOUND_HD inline DoubleDouble scaled_erfc(DoubleDouble x) {
  const ErfcxInterval at = erfcx_interval(x.high);
  return polynomial<13, 9>(erfcx_series(at.index), add(x, -at.middle));
}

/// exp(-x^2) for |x| <= 26. x^2 is needed to an absolute error: A + rest, a pair and what is left
/// of it, |rest| <= 4 u^2 x^2 < 2^-94, is x^2 up to 2^-145; exp(-x^2) = exp(-A) (1 - rest) up to
/// the rest's square. Error: exp 4, a sum with a double 2.
OPBOUND_HD inline DoubleDouble exp_minus_square(DoubleDouble x) {
  const DoubleDouble square = two_product(x.high, x.high);
  const DoubleDouble cross = two_product(2 * x.high, x.low);
  const DoubleDouble low = two_sum(square.low, cross.high);
  const double rest = low.low + fused(x.low, x.low, cross.low);
  const DoubleDouble power = exp(-fast_two_sum(square.high, low.high));
  return add(power, -(power.high * rest));
}

}  // namespace double_double

/// erfc(x): 0 from 26 on and where exp(-x^2) < 2^-959 (x > 25.78).
///
/// Error: exp(-x^2) 6, exp(x^2) erfc(x) 8, a product 4: 18; for x < 0 the exact result is above 1
/// and 2 - erfc(-x), 1 + erf(-x) have at most 18 * 0.48 + 2.
OPBOUND_HD inline DoubleDouble erfc(DoubleDouble x) {
  if (!is_finite(x)) return double_double::undecided();
  const DoubleDouble size = abs(x);
  if (is_negative(x) && size.high < 0.5)
    return double_double::add(double_double::erf_small(size), 1.0);
  const DoubleDouble result =
      size.high >= 26 ? DoubleDouble{}
                      : double_double::exp_minus_square(size) * double_double::scaled_erfc(size);
  return is_negative(x) ? double_double::add(-result, 2.0) : result;
}

/// erf(x): the series below 1/2; above, 1 - erfc(|x|) with erfc <= 0.4795 <= 0.93 erf. Error: 10,
/// or 18 * 0.93 + 2 < 19.
OPBOUND_HD inline DoubleDouble erf(DoubleDouble x) {
  if (!is_finite(x)) return double_double::undecided();
  if (abs(x.high) < 0.5) return double_double::erf_small(x);
  const DoubleDouble result = double_double::add(-erfc(abs(x)), 1.0);
  return is_negative(x) ? -result : result;
}

namespace double_double {

constexpr double angle_max = 0x1p20;

/// x = quadrant pi/2 + angle up to a multiple of 2 pi, |angle| <= 0.7854.
struct Angle {
  DoubleDouble angle;
  int quadrant;
};

/// x - k pi/2 for |x| <= 2^20, with pi/2 in three parts and k times the first exact. Error: two
/// sums, 3 + 2, and absolutely, for k != 0, k 2^-141 of pi/2 and the rounding of k times the third
/// part, 2^20 2^-88 2^-53: together below 2^-119.
OPBOUND_HD inline Angle reduce_angle(DoubleDouble x) {
  const double k = nearest_integer(x.high * two_over_pi);
  const double rest = fused(-k, half_pi_first, x.high);
  const DoubleDouble angle = two_sum(rest, x.low) - two_product(k, half_pi_second);
  return {add(angle, -(k * half_pi_third)), static_cast<int>(k) & 3};
}

/// Error beyond the angle's: angle^2 <= 0.617 in the series' second term, 14 * 0.12, the sum 3 and
/// the rest 10 * 0.12, a product 4; with the angle's 5: below 16. 15 terms truncate at 2^-122.
OPBOUND_HD inline DoubleDouble sin_series_at(DoubleDouble angle) {
  return angle * polynomial<8, 7>(sin_series(), angle * angle);
}

/// cos >= 0.707; the second term is at most 0.44 of it: 14 * 0.44 + 3 / 0.707 + 10 * 0.44 < 15.
OPBOUND_HD inline DoubleDouble cos_series_at(DoubleDouble angle) {
  return polynomial<9, 6>(cos_series(), angle * angle);
}

OPBOUND_HD inline DoubleDouble sin_in_quadrant(Angle a) {
  const DoubleDouble size = (a.quadrant & 1) != 0 ? cos_series_at(a.angle) : sin_series_at(a.angle);
  return (a.quadrant & 2) != 0 ? -size : size;
}

}  // namespace double_double

/// sin(x) for |x| <= 2^20, else not decided. Error: 16 relative to the result and
/// DoubleDoubleFacts::angle_reduction.
OPBOUND_HD inline DoubleDouble sin(DoubleDouble x) {
  if (!is_finite(x) || abs(x.high) > double_double::angle_max) return double_double::undecided();
  return double_double::sin_in_quadrant(double_double::reduce_angle(x));
}

/// cos(x) for |x| <= 2^20, else not decided; error as sin's.
OPBOUND_HD inline DoubleDouble cos(DoubleDouble x) {
  if (!is_finite(x) || abs(x.high) > double_double::angle_max) return double_double::undecided();
  const double_double::Angle a = double_double::reduce_angle(x);
  return double_double::sin_in_quadrant({a.angle, a.quadrant + 1});
}

/// 1 / sqrt(x); not decided below 2^-960. Error: 25/8 + 15.1.
OPBOUND_HD inline DoubleDouble rsqrt(DoubleDouble x) { return DoubleDouble{1, 0} / sqrt(x); }

}  // namespace opbound
