// The arithmetic of radii: doubles, rounded up.
#pragma once

#include <limits>

#include "ops/number.hpp"

namespace opbound::detail {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

/// Covers up to fifteen roundings of a sum of products of non-negative terms.
OPBOUND_HD inline double up(double x) { return x * (1 + 0x1p-49); }
inline constexpr double shrink = 1 - 0x1p-49;  // the same for divisors

/// a b for a radius: never rounded to 0, and 0 * infinity is 0 (no error is no error).
OPBOUND_HD inline double times(double a, double b) {
  if (a == 0 || b == 0) return 0;
  const double product = a * b;
  return product < 0x1p-960 ? product + 0x1p-1074 : product;
}
/// a / b for a radius, b > 0: never rounded to 0 either.
OPBOUND_HD inline double over(double a, double b) {
  if (a == 0) return 0;
  const double quotient = a / b;
  return quotient < 0x1p-960 ? quotient + 0x1p-1074 : quotient;
}
OPBOUND_HD inline bool is_finite(double x) { return magnitude_bits(x) < infinity_bits; }
OPBOUND_HD inline double positive_part(double x) { return x > 0 ? x : 0; }

}  // namespace opbound::detail
