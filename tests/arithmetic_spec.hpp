// Exact arithmetic on integers for the proofs of Rounded: every result is a significand, an
// exponent, and whether something below the last place was left over.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "tests/format_spec.hpp"

namespace opbound::spec {

constexpr Exact product(const Exact& x, const Exact& y) {
  return {x.negative != y.negative, x.significand * y.significand, x.exponent + y.exponent};
}

/// Significands below 2^23 (a product of two formats' values), or 2^24 for fp32.
///
/// Terms more than 2^40 places apart: the smaller one, under 2^24 of its own units, is less than
/// one unit of the larger one shifted by 16, and only its sign matters.
constexpr Exact sum(Exact x, Exact y) {
  if (x.significand == 0 && y.significand == 0) return {x.negative && y.negative, 0, 0};
  if (x.significand == 0) return y;
  if (y.significand == 0) return x;
  if (x.exponent < y.exponent) std::swap(x, y);
  const int distance = x.exponent - y.exponent;
  if (distance > 40) {
    const std::uint64_t shifted = x.significand << 16;
    const bool away = x.negative == y.negative;
    return {x.negative, away ? shifted : shifted - 1, x.exponent - 16, true};
  }
  const auto signed_value = [](const Exact& z, int shift) {
    const auto v = static_cast<std::int64_t>(z.significand << shift);
    return z.negative ? -v : v;
  };
  const std::int64_t total = signed_value(x, distance) + signed_value(y, 0);
  return {total < 0, static_cast<std::uint64_t>(total < 0 ? -total : total), y.exponent};
}

constexpr Exact negated(Exact x) {
  x.negative = !x.negative;
  return x;
}

/// y not 0; significands below 2^24, so the quotient has more than 16 bits.
constexpr Exact quotient(const Exact& x, const Exact& y) {
  const std::uint64_t numerator = x.significand << 40;
  return {x.negative != y.negative, numerator / y.significand, x.exponent - y.exponent - 40,
          numerator % y.significand != 0};
}

/// x >= 0, or -0; the root has at least 20 bits.
constexpr Exact square_root(const Exact& x) {
  const int odd = x.exponent % 2 != 0 ? 1 : 0;
  const std::uint64_t radicand = x.significand << (38 + odd);
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit /= 2)
    if ((root | bit) * (root | bit) <= radicand) root |= bit;
  return {x.negative, root, (x.exponent - odd - 38) / 2, root * root != radicand};
}

/// One value of a format in all the forms that a proof needs.
struct Operand {
  Exact exact;
  float value;
  bool is_finite;
};

inline Operand operand(const Layout& l, std::uint64_t pattern) {
  const double v = value_of(l, pattern);
  return {std::isfinite(v) ? exact_of(l, pattern) : Exact{}, static_cast<float>(v),
          std::isfinite(v)};
}

/// The pattern of a result that IEEE 754 gives without rounding: zero, infinity or NaN.
inline std::uint64_t special_pattern(const Layout& l, double result) {
  if (std::isnan(result)) return l.nan;
  if (std::isinf(result)) return overflow_pattern(l, result < 0);
  return rounded(l, exact_of(result));
}

}  // namespace opbound::spec
