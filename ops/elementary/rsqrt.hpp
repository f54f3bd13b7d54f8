// rsqrt: the reciprocal square root.
#pragma once

#include "ops/elementary/arithmetic.hpp"

namespace opbound {

/// x^(-1/2); error at most 0.51 ulp. Infinite at 0 with its sign, NaN below.
///
/// With r = RN(sqrt(x)), y = RN(1/r), x = r^2 - d and y r = 1 - e, where d and e are doubles:
/// x^(-1/2) = y / (y r sqrt(1 - d / r^2)) = y (1 + e + d y^2 / 2) to within 3 u^2.
OPBOUND_HD inline double rsqrt(double x) {
  const bool is_small = x < 0x1p-900;  // there d would underflow
  const double scaled = is_small ? x * 0x1p200 : x;
  const double root = detail::square_root(scaled);
  const double y = 1.0 / root;
  if (!(x > 0 && x < detail::infinity)) return y;
  const double d = fma(root, root, -scaled);
  const double e = fma(-y, root, 1.0);
  const double corrected = fma(y, fma(0.5 * d, y * y, e), y);
  return is_small ? corrected * 0x1p100 : corrected;
}

/// x^(-1/2), correctly rounded (all floats proved).
OPBOUND_HD inline float rsqrt(float x) { return static_cast<float>(1.0 / detail::square_root(x)); }

}  // namespace opbound
