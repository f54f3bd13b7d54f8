// What the elementary functions are built from: error-free transformations, Horner's rule, powers
// of two. Nothing here or above uses a mathematical library, so host and device give equal bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/format.hpp"
#include "ops/odd.hpp"
#include "ops/portable.hpp"

namespace opbound {

/// a b + c rounded once (IEEE 754-2019, 5.4.1).
OPBOUND_HD inline double fma(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}
OPBOUND_HD inline float fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

namespace detail {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The real number high + low, usually with |low| <= ulp(high).
struct DoubleWord {
  double high;
  double low;
};

struct TripleWord {
  double high;
  double middle;
  double low;
};

/// a + b exactly (Knuth 1969).
OPBOUND_HD inline DoubleWord two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a + b exactly, if |a| >= |b| or a = 0 (Dekker 1971).
OPBOUND_HD inline DoubleWord fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, (a - sum) + b};
}

/// a b exactly, if nothing underflows.
OPBOUND_HD inline DoubleWord two_product(double a, double b) {
  const double product = a * b;
  return {product, fma(a, b, -product)};
}

/// a b to within a few units of 2^-104 |a b|.
OPBOUND_HD inline DoubleWord multiply(DoubleWord a, DoubleWord b) {
  const DoubleWord p = two_product(a.high, b.high);
  return fast_two_sum(p.high, p.low + fma(a.high, b.low, a.low * b.high));
}

OPBOUND_HD inline double horner(double, double c) { return c; }

/// c0 + x (c1 + x (c2 + ...)).
template <class... Rest>
OPBOUND_HD inline double horner(double x, double c0, Rest... rest) {
  return fma(x, horner(x, rest...), c0);
}

/// a + b as a double that rounds to the float nearest to the exact sum.
///
/// Rounding twice can only go wrong where the first rounding gives a midpoint of two floats (for a
/// normal result: 29 last bits 10...0); there it rounds to odd instead, which keeps the side.
OPBOUND_HD inline double add_for_float(double a, double b) {
  const double sum = a + b;
  const bool is_midpoint = (std::bit_cast<std::uint64_t>(sum) & 0x1fffffff) == 0x10000000;
  return is_midpoint ? round_to_odd(a, b) : sum;
}

OPBOUND_HD inline double magnitude(double x) { return std::bit_cast<double>(magnitude_bits(x)); }
OPBOUND_HD inline float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
}

/// x confined to [low, high]; NaN stays NaN.
template <class T>
OPBOUND_HD inline T clamp(T x, T low, T high) {
  const T from_below = x < low ? low : x;
  return from_below > high ? high : from_below;
}

OPBOUND_HD inline double square_root(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

/// The nearest integer n to a |value| < 2^51, as a double, and modulo 2^52 as an integer:
/// adding 1.5 2^52 leaves it in the low bits of the sum.
struct NearestInteger {
  double value;
  std::int64_t integer;
};

/// The integer nearest to x scale, rounded once.
OPBOUND_HD inline NearestInteger nearest_integer(double x, double scale) {
  constexpr double shifter = 0x1.8p52;
  const double shifted = fma(x, scale, shifter);
  const std::uint64_t integer =
      std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(shifter);
  return {shifted - shifter, static_cast<std::int64_t>(integer)};
}

/// 2^k for k in [-1022, 1023]; any double for another k.
OPBOUND_HD inline double exp2_integer(std::int64_t k) {
  return std::bit_cast<double>((static_cast<std::uint64_t>(k) + 1023) << 52);
}

/// y 2^k, rounded once, for 2^-53 <= |y| <= 4 and |k| <= 1200; NaN if y is NaN.
OPBOUND_HD inline double scale(double y, std::int64_t k) {
  const std::int64_t half = k >> 1;
  return y * exp2_integer(half) * exp2_integer(k - half);
}

}  // namespace detail
}  // namespace opbound
