// DoubleDouble: a number as the unevaluated sum of two doubles, for the host and the device.
//
// The algorithms are numbered as in Joldes, Muller and Popescu, "Tight and rigorous error bounds
// for basic building blocks of double-word arithmetic" (2017); the bounds, with u = 2^-53, are
// theirs as corrected and improved by Muller and Rideau (2022). They hold for operands with
// high = RN(high + low), which every operation returns, without contraction into fma.
//
// The law, for every operation and function: unless is_finite says no,
//   |got - exact| <= relative |exact| + underflow,
// with the figures of DoubleDoubleFacts. A result that is not finite says "not decided here", for
// infinities, overflow and arguments outside a function's stated range alike; such a value stays
// not finite in every operation but max and min with an infinity.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "ops/number.hpp"
#include "reference/constants.hpp"
#include "reference/double_double_tables.hpp"

namespace opbound {

/// The errors of DoubleDouble's operations and functions, as upper bounds. u2 = u^2.
struct DoubleDoubleFacts {
  static constexpr double u2 = 0x1p-106;

  /// Algorithm 6: 3 u^2 / (1 - 4 u).
  static constexpr double add = 3 * u2 * (1 + 0x1p-50);
  /// Algorithm 12: 4 u^2. fma(a, b, c) is a product and a sum: multiply |a b| + add |got|.
  static constexpr double multiply = 4 * u2;
  /// Algorithm 17: 15 u^2 + 56 u^3, and 2^-6 u^2 for residuals that underflow (see operator/).
  static constexpr double divide = (15 + 0x1p-5) * u2;
  /// Lefevre, Louvet, Muller, Picot and Rideau 2023: 25/8 u^2.
  static constexpr double sqrt = 3.125 * u2;

  /// Derived above each function in double_double_functions.hpp.
  static constexpr double exp = 8 * u2;
  static constexpr double exp2 = 8 * u2;
  static constexpr double expm1 = 32 * u2;
  static constexpr double log = 64 * u2;
  static constexpr double log1p = 64 * u2;
  static constexpr double tanh = 64 * u2;
  static constexpr double erf = 32 * u2;
  static constexpr double erfc = 32 * u2;
  static constexpr double sin = 32 * u2;
  static constexpr double cos = 32 * u2;
  static constexpr double rsqrt = 20 * u2;

  /// Added to the relative error of sin and cos for |x| >= pi/4, near whose zeros a relative bound
  /// does not exist.
  static constexpr double angle_reduction = 0x1p-117;

  /// Added to every error: what is lost below 2^-959, where exp and erfc give 0 and the low parts
  /// of products are no longer exact.
  static constexpr double underflow = 0x1p-958;
};

struct DoubleDouble {
  double high = 0;
  double low = 0;

  bool operator==(const DoubleDouble&) const = default;
};

OPBOUND_HD constexpr bool is_finite(DoubleDouble x) {
  return x.high - x.high == 0 && x.low - x.low == 0;
}

namespace double_double {

OPBOUND_HD constexpr DoubleDouble undecided() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return {nan, nan};
}

/// a b + c, rounded once.
OPBOUND_HD inline double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

/// a + b exactly (Knuth 1969).
OPBOUND_HD constexpr DoubleDouble two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a + b exactly, for |a| >= |b| or a = 0 (Dekker 1971).
OPBOUND_HD constexpr DoubleDouble fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// a b exactly, if nothing underflows.
OPBOUND_HD inline DoubleDouble two_product(double a, double b) {
  const double product = a * b;
  return {product, fused(a, b, -product)};
}

/// Algorithm 4 (DWPlusFP): relative error 2 u^2.
OPBOUND_HD constexpr DoubleDouble add(DoubleDouble x, double y) {
  const DoubleDouble sum = two_sum(x.high, y);
  return fast_two_sum(sum.high, x.low + sum.low);
}

/// Algorithm 9 (DWTimesFP3): relative error 2 u^2.
OPBOUND_HD inline DoubleDouble multiply(DoubleDouble x, double y) {
  const DoubleDouble product = two_product(x.high, y);
  return fast_two_sum(product.high, fused(x.low, y, product.low));
}

/// x 2^e for e in [-1074, 1023]: exact but for underflow.
OPBOUND_HD constexpr DoubleDouble scale(DoubleDouble x, int e) {
  const double factor = power_of_two(e);
  return {x.high * factor, x.low * factor};
}

}  // namespace double_double

OPBOUND_HD constexpr DoubleDouble operator-(DoubleDouble x) { return {-x.high, -x.low}; }

/// Algorithm 6 (AccurateDWPlusDW).
OPBOUND_HD constexpr DoubleDouble operator+(DoubleDouble x, DoubleDouble y) {
  const DoubleDouble high = double_double::two_sum(x.high, y.high);
  const DoubleDouble low = double_double::two_sum(x.low, y.low);
  const DoubleDouble sum = double_double::fast_two_sum(high.high, high.low + low.high);
  return double_double::fast_two_sum(sum.high, low.low + sum.low);
}
OPBOUND_HD constexpr DoubleDouble operator-(DoubleDouble x, DoubleDouble y) { return x + -y; }

/// Algorithm 12 (DWTimesDW3). Below the normal range each of its four roundings of a low part loses
/// at most 2^-1075 more.
OPBOUND_HD inline DoubleDouble operator*(DoubleDouble x, DoubleDouble y) {
  const DoubleDouble product = double_double::two_product(x.high, y.high);
  const double low =
      double_double::fused(x.low, y.high, double_double::fused(x.high, y.low, x.low * y.low));
  return double_double::fast_two_sum(product.high, product.low + low);
}

/// Algorithm 17 (DWDivDW2). Its residual x - y q loses at most 2^-1073 to underflow. This is 2^-113
/// of |x| if |x| >= 2^-960, and 2^-973 of the quotient if |y| >= 2^-100; else nothing is decided.
OPBOUND_HD inline DoubleDouble operator/(DoubleDouble x, DoubleDouble y) {
  const double x_size = abs(x.high);
  if (x_size < 0x1p-960 && x_size != 0 && abs(y.high) < 0x1p-100) return double_double::undecided();
  const double quotient = x.high / y.high;
  const DoubleDouble product = double_double::multiply(y, quotient);
  const double residual = (x.high - product.high) + (x.low - product.low);
  return double_double::fast_two_sum(quotient, residual / y.high);
}

/// Not decided for x < 0, which is NaN, and for 0 < x < 2^-960.
OPBOUND_HD inline DoubleDouble sqrt(DoubleDouble x) {
  if (x.high == 0) return x;
  if (!(x.high >= 0x1p-960)) return double_double::undecided();
  const double root = sqrt(x.high);
  const double residual = double_double::fused(-root, root, x.high);
  return double_double::fast_two_sum(root, (x.low + residual) / (2 * root));
}

OPBOUND_HD inline DoubleDouble fma(DoubleDouble a, DoubleDouble b, DoubleDouble c) {
  return a * b + c;
}

OPBOUND_HD constexpr bool is_nan(DoubleDouble x) { return x.high != x.high || x.low != x.low; }

/// Whether x < 0.
OPBOUND_HD constexpr bool is_negative(DoubleDouble x) { return x.high < 0; }

OPBOUND_HD constexpr DoubleDouble abs(DoubleDouble x) { return x.high < 0 ? -x : x; }

/// The larger one; not decided if either is not a number.
OPBOUND_HD constexpr DoubleDouble max(DoubleDouble a, DoubleDouble b) {
  if (is_nan(a) || is_nan(b)) return double_double::undecided();
  return a.high < b.high || (a.high == b.high && a.low < b.low) ? b : a;
}
/// The smaller one; not decided if either is not a number.
OPBOUND_HD constexpr DoubleDouble min(DoubleDouble a, DoubleDouble b) {
  if (is_nan(a) || is_nan(b)) return double_double::undecided();
  return b.high < a.high || (a.high == b.high && b.low < a.low) ? b : a;
}

OPBOUND_HD constexpr DoubleDouble pivot(DoubleDouble x) { return x; }
OPBOUND_HD constexpr DoubleDouble stored_in(const Format&, DoubleDouble x) { return x; }

template <>
struct Conversion<DoubleDouble> {
  /// Exact.
  OPBOUND_HD static constexpr DoubleDouble from(double x) { return {x, 0}; }
  /// Within 2^-106 of the constant.
  OPBOUND_HD static constexpr DoubleDouble from(Real r) { return {r.high, r.low}; }
};

template <>
OPBOUND_HD inline DoubleDouble pi<DoubleDouble>() {
  return {double_double::pi_pair_first, double_double::pi_pair_second};
}

}  // namespace opbound

#include "reference/double_double_functions.hpp"  // IWYU pragma: export

namespace opbound {
static_assert(Number<DoubleDouble>);
}
