// What the number formats' standards say, in integers: the specification that the proofs of
// ops/format.hpp and ops/number.hpp compare with. Nothing here calls what it specifies.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/format.hpp"
#include "ops/parallel.hpp"

namespace opbound::spec {

/// The fields of a bit pattern, sign first. Patterns of one sign are in the order of their values.
struct Layout {
  Format format;
  int exponent_bits;
  int fraction_bits;
  std::uint64_t largest;  ///< pattern of the largest finite value
  std::uint64_t nan;      ///< the canonical quiet NaN

  constexpr int sign_shift() const { return exponent_bits + fraction_bits; }
  constexpr std::uint64_t sign_bit() const { return std::uint64_t{1} << sign_shift(); }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// Exponent of the smallest subnormal.
  constexpr int quantum() const { return 1 - bias() - fraction_bits; }
};

inline constexpr Layout fp64_layout{fp64, 11, 52, 0x7fefffffffffffff, 0x7ff8000000000000};
inline constexpr Layout fp32_layout{fp32, 8, 23, 0x7f7fffff, 0x7fc00000};
inline constexpr Layout tf32_layout{tf32, 8, 10, 0x3fbff, 0x3fe00};  // 19 bits; storage adds 13
inline constexpr Layout bf16_layout{bf16, 8, 7, 0x7f7f, 0x7fc0};
inline constexpr Layout fp16_layout{fp16, 5, 10, 0x7bff, 0x7e00};
inline constexpr Layout e4m3_layout{e4m3, 4, 3, 0x7e, 0x7f};  // only S.1111.111 is NaN
inline constexpr Layout e5m2_layout{e5m2, 5, 2, 0x7b, 0x7e};

/// Every format that Rounded works in.
inline constexpr Layout narrow_layouts[] = {tf32_layout, bf16_layout, fp16_layout, e4m3_layout,
                                            e5m2_layout};

/// (-1)^negative * (significand + t) * 2^exponent, t = 0 or, with `more`, anywhere in (0, 1).
struct Exact {
  bool negative;
  std::uint64_t significand;
  int exponent;
  bool more = false;
};

/// A finite double taken apart by the C library.
inline Exact exact_of(double x) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(x), &exponent);
  return {std::signbit(x), static_cast<std::uint64_t>(std::ldexp(fraction, 53)), exponent - 53};
}

/// A finite pattern taken apart.
constexpr Exact exact_of(const Layout& l, std::uint64_t pattern) {
  const std::uint64_t magnitude = pattern & (l.sign_bit() - 1);
  const auto biased = static_cast<int>(magnitude >> l.fraction_bits);
  const std::uint64_t hidden = std::uint64_t{1} << l.fraction_bits;
  const std::uint64_t fraction = magnitude & (hidden - 1);
  const bool negative = pattern >= l.sign_bit();
  if (biased == 0) return {negative, fraction, l.quantum()};
  return {negative, fraction | hidden, biased - 1 + l.quantum()};
}

inline double value_of(const Exact& e) {
  const double a = std::ldexp(static_cast<double>(e.significand), e.exponent);
  return e.negative ? -a : a;
}

inline double value_of(const Layout& l, std::uint64_t pattern) {
  const std::uint64_t magnitude = pattern & (l.sign_bit() - 1);
  if (magnitude <= l.largest) return value_of(exact_of(l, pattern));
  const bool is_infinity = l.format.kind != Kind::e4m3 && magnitude == l.largest + 1;
  if (!is_infinity) return std::numeric_limits<double>::quiet_NaN();
  return pattern >= l.sign_bit() ? -HUGE_VAL : HUGE_VAL;
}

/// What a magnitude above the largest becomes when it is rounded to nearest.
constexpr std::uint64_t overflow_pattern(const Layout& l, bool negative) {
  const std::uint64_t sign = negative ? l.sign_bit() : 0;
  if (l.format.overflow == Overflow::saturate) return sign | l.largest;
  return l.format.overflow == Overflow::to_nan ? l.nan : sign | (l.largest + 1);
}

enum class Rounding { nearest_even, toward_zero };

/// The pattern that z rounds to. With `more`, the significand must have two bits to spare.
///
/// The kept digits are counted in the quantum of z's binade, so that the pattern is that count
/// plus the binade's first pattern, less the hidden bit; a carry runs into the exponent by itself.
constexpr std::uint64_t rounded(const Layout& l, const Exact& z,
                                Rounding rounding = Rounding::nearest_even) {
  const std::uint64_t sign = z.negative ? l.sign_bit() : 0;
  if (z.significand == 0) return sign;
  const int top = z.exponent + 63 - std::countl_zero(z.significand);
  const int lowest = l.quantum() + l.fraction_bits;
  const int binade = top < lowest ? lowest : top;
  const int shift = binade - l.fraction_bits - z.exponent;
  std::uint64_t kept = 0;
  bool up = false;
  if (shift <= 0) {
    kept = z.significand << -shift;
  } else if (shift < 64) {
    kept = z.significand >> shift;
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    const std::uint64_t rest = z.significand & (2 * half - 1);
    up = rest > half || (rest == half && (z.more || kept % 2 == 1));
  } else {  // z < 2^64 units: below half a quantum unless shift = 64
    up = shift == 64 && (z.significand > std::uint64_t{1} << 63 ||
                         (z.significand == std::uint64_t{1} << 63 && z.more));
  }
  if (rounding == Rounding::nearest_even && up) ++kept;
  if (binade > l.bias() + 1)
    return rounding == Rounding::nearest_even ? overflow_pattern(l, z.negative) : sign | l.largest;
  const std::uint64_t pattern =
      (static_cast<std::uint64_t>(binade - lowest) << l.fraction_bits) + kept;
  if (pattern <= l.largest) return sign | pattern;
  return rounding == Rounding::nearest_even ? overflow_pattern(l, z.negative) : sign | l.largest;
}

/// How ops/format.hpp stores the pattern.
constexpr std::uint64_t storage_of(const Layout& l, std::uint64_t pattern) {
  return l.format.kind == Kind::tf32 ? pattern << 13 : pattern;
}

inline bool same_value(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// The sum of body(i) over i in [0, count), on all cores.
template <class Body>
std::uint64_t sum_in_parallel(std::int64_t count, Body body) {
  std::atomic<std::uint64_t> sum{0};
  parallel_for(count, std::int64_t{1} << 16,
               [&](std::int64_t i) { sum += body(static_cast<std::uint64_t>(i)); });
  return sum;
}

}  // namespace opbound::spec
