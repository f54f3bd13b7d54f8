// Floating-point formats as values, and rounding to them.
//
// fp64, fp32, fp16: IEEE 754-2019. bf16, tf32: fp32's exponent range with 8 and 11 significand
// bits. e4m3, e5m2: OCP 8-bit Floating Point Specification, revision 1.0 (2023).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "ops/portable.hpp"

namespace opbound {

enum class Kind : std::uint8_t { fp64, fp32, tf32, bf16, fp16, e4m3, e5m2 };

/// What a finite value beyond the largest one becomes when it is rounded to nearest.
enum class Overflow : std::uint8_t { to_infinity, to_nan, saturate };

/// 2^e as a double; e in [-1074, 1023].
OPBOUND_HD constexpr double power_of_two(int e) {
  return e >= -1022 ? std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52)
                    : std::bit_cast<double>(std::uint64_t{1} << (e + 1074));
}

/// A binary format with precision `digits` (the hidden bit included) and normal numbers from
/// 2^exponent_min on.
struct Format {
  Kind kind;
  int digits;
  int exponent_min;
  int exponent_max;
  Overflow overflow;

  constexpr bool operator==(const Format&) const = default;

  /// u = 2^-digits: |RN(z) - z| <= u |z| / (1 + u) without underflow.
  OPBOUND_HD constexpr double unit_roundoff() const { return power_of_two(-digits); }

  /// Half the smallest subnormal, rounded up to a double (fp64's own half is not one).
  OPBOUND_HD constexpr double eta() const {
    const int e = exponent_min - digits;
    return power_of_two(e < -1074 ? -1074 : e);
  }

  OPBOUND_HD constexpr double smallest_normal() const { return power_of_two(exponent_min); }
  OPBOUND_HD constexpr double smallest_subnormal() const {
    return power_of_two(exponent_min - digits + 1);
  }

  /// e4m3 gives its topmost significand to NaN, so its largest value is one step lower.
  OPBOUND_HD constexpr double largest() const {
    const double significand = power_of_two(digits) - (kind == Kind::e4m3 ? 2 : 1);
    return significand * power_of_two(exponent_max - digits + 1);
  }

  OPBOUND_HD constexpr bool has_infinity() const { return kind != Kind::e4m3; }

  /// Bits of storage; tf32 is kept in 32 bits with 13 zeros at the end.
  OPBOUND_HD constexpr int bits() const {
    return kind == Kind::fp64                         ? 64
           : kind == Kind::fp32 || kind == Kind::tf32 ? 32
           : kind == Kind::bf16 || kind == Kind::fp16 ? 16
                                                      : 8;
  }
  OPBOUND_HD constexpr int bytes() const { return bits() / 8; }

  OPBOUND_HD constexpr Format saturating() const {
    return {kind, digits, exponent_min, exponent_max, Overflow::saturate};
  }
};

inline constexpr Format fp64{Kind::fp64, 53, -1022, 1023, Overflow::to_infinity};
inline constexpr Format fp32{Kind::fp32, 24, -126, 127, Overflow::to_infinity};
inline constexpr Format tf32{Kind::tf32, 11, -126, 127, Overflow::to_infinity};
inline constexpr Format bf16{Kind::bf16, 8, -126, 127, Overflow::to_infinity};
inline constexpr Format fp16{Kind::fp16, 11, -14, 15, Overflow::to_infinity};
inline constexpr Format e4m3{Kind::e4m3, 4, -6, 8, Overflow::to_nan};
inline constexpr Format e5m2{Kind::e5m2, 3, -14, 15, Overflow::to_infinity};

inline constexpr std::array<Format, 7> all_formats{fp64, fp32, tf32, bf16, fp16, e4m3, e5m2};

constexpr std::string_view name_of(const Format& f) {
  constexpr std::array<std::string_view, 7> names{"fp64", "fp32", "tf32", "bf16",
                                                  "fp16", "e4m3", "e5m2"};
  return names[static_cast<std::size_t>(f.kind)];
}

namespace detail {

OPBOUND_HD constexpr std::uint64_t magnitude_bits(double x) {
  return std::bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffULL;
}

OPBOUND_HD constexpr double with_sign_of(double magnitude, double x) {
  return std::bit_cast<double>(magnitude_bits(magnitude) |
                               (std::bit_cast<std::uint64_t>(x) & 0x8000000000000000ULL));
}

inline constexpr std::uint64_t infinity_bits = 0x7ff0000000000000ULL;

/// What lies beyond the largest value, for rounding to nearest; x may be infinite.
OPBOUND_HD constexpr double overflowed(const Format& f, double x) {
  if (f.overflow == Overflow::saturate) return with_sign_of(f.largest(), x);
  if (f.overflow == Overflow::to_nan) return std::bit_cast<double>(0x7ff8000000000000ULL);
  return with_sign_of(std::bit_cast<double>(infinity_bits), x);
}

/// log2 of the spacing of f's values around x, for finite x.
OPBOUND_HD constexpr int quantum_exponent(const Format& f, double x) {
  const int e = static_cast<int>(magnitude_bits(x) >> 52) - 1023;
  return (e < f.exponent_min ? f.exponent_min : e) - f.digits + 1;
}

}  // namespace detail

/// Spacing of f's values in the binade of x (its smallest subnormal below the normal range); x
/// finite.
OPBOUND_HD constexpr double ulp(const Format& f, double x) {
  return power_of_two(detail::quantum_exponent(f, x));
}

/// x rounded to nearest, ties to even, in one step; NaN stays NaN.
///
/// Adding and subtracting c = 1.5 * 2^(q + 52) rounds to a multiple of 2^q, since doubles around c
/// are 2^q apart and c / 2^q is even. q is x's quantum exponent, held inside the format's range so
/// that no branch is needed: a larger x stays larger than the largest value.
OPBOUND_HD constexpr double round_to(const Format& f, double x) {
  if (f.kind == Kind::fp64) return x;
  const std::uint64_t magnitude = detail::magnitude_bits(x);
  const auto low = std::bit_cast<std::uint64_t>(f.smallest_normal());
  const auto high = std::bit_cast<std::uint64_t>(power_of_two(f.exponent_max + 1));
  const std::uint64_t held = magnitude < low ? low : magnitude > high ? high : magnitude;
  const std::uint64_t shift = static_cast<std::uint64_t>(53 - f.digits) << 52;
  const double power = std::bit_cast<double>((held & detail::infinity_bits) + shift);
  const double c = 1.5 * power;  // power = 2^(q + 52)
  const double rounded = (std::bit_cast<double>(magnitude) + c) - c;
  return rounded > f.largest() ? detail::overflowed(f, x) : detail::with_sign_of(rounded, x);
}

/// x rounded toward zero; a finite value beyond the largest one becomes the largest.
OPBOUND_HD constexpr double truncate_to(const Format& f, double x) {
  const std::uint64_t magnitude = detail::magnitude_bits(x);
  if (magnitude > detail::infinity_bits || f.kind == Kind::fp64) return x;
  if (magnitude == detail::infinity_bits) return detail::overflowed(f, x);
  if (magnitude >= std::bit_cast<std::uint64_t>(f.largest()))
    return detail::with_sign_of(f.largest(), x);
  const int q = detail::quantum_exponent(f, x);
  const double c = 1.5 * power_of_two(q + 52);
  const double a = std::bit_cast<double>(magnitude);
  const double nearest = (a + c) - c;
  return detail::with_sign_of(nearest > a ? nearest - power_of_two(q) : nearest, x);
}

/// x rounded up with probability equal to its position between two neighbours: up iff random *
/// 2^-32 < position. E[result] = x to within 2^-32 ulp; `random` is uniform on all 2^32 values.
OPBOUND_HD constexpr double round_stochastic(const Format& f, double x, std::uint32_t random) {
  const std::uint64_t magnitude = detail::magnitude_bits(x);
  if (magnitude >= detail::infinity_bits || f.kind == Kind::fp64) return round_to(f, x);
  if (magnitude >= std::bit_cast<std::uint64_t>(f.largest())) return round_to(f, x);
  const double low = std::bit_cast<double>(detail::magnitude_bits(truncate_to(f, x)));
  const double step = power_of_two(detail::quantum_exponent(f, x));
  const double position = (std::bit_cast<double>(magnitude) - low) / step;
  return detail::with_sign_of(static_cast<double>(random) * 0x1p-32 < position ? low + step : low,
                              x);
}

/// Bit pattern of a value that f holds exactly (round first); NaN, and infinity where f has none,
/// gives the canonical quiet NaN.
OPBOUND_HD constexpr std::uint64_t encode(const Format& f, double x) {
  const std::uint64_t magnitude = detail::magnitude_bits(x);
  const std::uint64_t sign = std::bit_cast<std::uint64_t>(x) >> 63 << (f.bits() - 1);
  const int fraction_bits = f.kind == Kind::tf32 ? 23 : f.digits - 1;
  const std::uint64_t infinity = ((std::uint64_t{1} << (f.bits() - 1 - fraction_bits)) - 1)
                                 << fraction_bits;
  if (magnitude >= detail::infinity_bits) {
    if (f.kind == Kind::e4m3) return 0x7f;
    return magnitude == detail::infinity_bits
               ? sign | infinity
               : infinity | (std::uint64_t{1} << (fraction_bits - 1));
  }
  if (f.kind == Kind::fp64) return std::bit_cast<std::uint64_t>(x);
  if (f.exponent_min == -126)  // as in fp32, so the pattern is the top of fp32's
    return std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> (32 - f.bits());
  const double a = std::bit_cast<double>(magnitude);
  if (a < f.smallest_normal())  // a whole number of smallest steps
    return sign | static_cast<std::uint64_t>(a * power_of_two(fraction_bits - f.exponent_min));
  const int between_biases = 1022 + f.exponent_min;
  return sign | ((magnitude >> (52 - fraction_bits)) -
                 (static_cast<std::uint64_t>(between_biases) << fraction_bits));
}

/// The value of a bit pattern; exact.
OPBOUND_HD constexpr double decode(const Format& f, std::uint64_t bits) {
  if (f.kind == Kind::fp64) return std::bit_cast<double>(bits);
  if (f.kind == Kind::fp32 || f.kind == Kind::tf32)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (f.kind == Kind::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  const int fraction_bits = f.digits - 1;
  const double sign = bits >> (f.bits() - 1) != 0 ? -1.0 : 1.0;
  const std::uint64_t magnitude = bits & ((std::uint64_t{1} << (f.bits() - 1)) - 1);
  const std::uint64_t biased = magnitude >> fraction_bits;
  const std::uint64_t all_exponents = (std::uint64_t{1} << (f.bits() - 1 - fraction_bits)) - 1;
  const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << fraction_bits) - 1);
  const bool is_nan =
      f.kind == Kind::e4m3 ? magnitude == 0x7f : biased == all_exponents && fraction != 0;
  if (is_nan) return std::bit_cast<double>(0x7ff8000000000000ULL);
  if (f.has_infinity() && biased == all_exponents)
    return sign * std::bit_cast<double>(detail::infinity_bits);
  if (biased == 0)
    return sign * static_cast<double>(fraction) * power_of_two(f.exponent_min - fraction_bits);
  const auto significand = static_cast<double>(fraction | (std::uint64_t{1} << fraction_bits));
  return sign * significand *
         power_of_two(static_cast<int>(biased) - 1 + f.exponent_min - fraction_bits);
}

}  // namespace opbound
