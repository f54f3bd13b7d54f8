// Conversions between formats: what has to come out, bit for bit, on the host and on the device.
//
// A conversion has one right answer, so there is no bound: IEEE 754-2019 4.3 says which of the
// format's values it is, and OCP's FP8 specification 5.2 what saturates.
#pragma once

#include <bit>

#include "bounds/judge.hpp"
#include "ops/format.hpp"

namespace opbound::conversion {

enum class Rounding : std::uint8_t { nearest, toward_zero, upward, downward };

/// What becomes of a number of `from`; `to` says what becomes of numbers beyond its largest.
struct Rule {
  Format from, to;
  Rounding rounding = Rounding::nearest;

  constexpr bool operator==(const Rule&) const = default;
};

/// The least value of f that is not below x. The one toward zero is it unless something positive
/// was cut off; what is cut off ends before the next value, and after the largest comes infinity.
OPBOUND_HD inline double upward(const Format& f, double x) {
  const double cut = truncate_to(f, x);
  if (!(x > cut)) return cut;
  return cut == f.largest() ? rounding::infinite : cut + ulp(f, cut);
}

OPBOUND_HD inline double converted(const Rule& rule, double x) {
  switch (rule.rounding) {
    case Rounding::toward_zero:
      return truncate_to(rule.to, x);
    case Rounding::upward:
      return upward(rule.to, x);
    case Rounding::downward:
      return -upward(rule.to, -x);
    default:
      return round_to(rule.to, x);
  }
}

/// What lies between a value of a format and the next one farther from 0 is rounded by where it
/// lies: places 0 and 4 are the doubles next to the two, 2 is the midpoint, 1 and 3 are the doubles
/// next to that.
inline constexpr std::uint64_t places = 5;

/// Double i around the values of f: behind the value with the bits i mod 2^bits, in place i mod 5.
/// 5 and 2^bits have no common factor, so any 2^bits indices in a row have each value once, with
/// places that alternate, and 5 * 2^bits have each value in each place.
OPBOUND_HD inline double between_values(const Format& f, std::uint64_t i) {
  const double value = decode(f, i & ((std::uint64_t{1} << f.bits()) - 1));
  const std::uint64_t size = detail::magnitude_bits(value);
  if (size >= detail::infinity_bits) return value;
  const double step = ulp(f, value), low = std::bit_cast<double>(size);
  const std::uint64_t middle = std::bit_cast<std::uint64_t>(low + step / 2);
  const std::uint64_t next = std::bit_cast<std::uint64_t>(low + step);
  const std::uint64_t place = i % places;
  const std::uint64_t between = place == 0 ? size + 1 : place == 4 ? next - 1 : middle + place - 2;
  return detail::with_sign_of(std::bit_cast<double>(between), value);
}

/// How many inputs are tried: every pattern of `from`; of the doubles those around the values of
/// `to`, a fifth of them where these are 2^32.
OPBOUND_HD constexpr std::int64_t inputs_of(const Rule& rule) {
  if (rule.from.kind != Kind::fp64) return std::int64_t{1} << rule.from.bits();
  const std::int64_t values = std::int64_t{1} << rule.to.bits();
  return rule.to.bits() == 32 ? values : static_cast<std::int64_t>(places) * values;
}

OPBOUND_HD inline double input_of(const Rule& rule, std::int64_t index) {
  const auto i = static_cast<std::uint64_t>(index);
  return rule.from.kind == Kind::fp64 ? between_values(rule.to, i) : decode(rule.from, i);
}

/// Any NaN is as good as any other; zeros have their sign.
OPBOUND_HD inline bool is_same(double a, double b) {
  return (a != a && b != b) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// The result `bits` of converting x. The error is told against x, as everywhere; where x is beyond
/// the format's numbers, or the result is none, there is no such thing.
OPBOUND_HD inline Judgement judged(const Rule& rule, double x, std::uint64_t bits) {
  const double got = decode(rule.to, bits);
  const bool is_right = is_same(got, converted(rule, x));
  Judgement j;
  j.verdict = is_right ? Verdict::within : Verdict::exceeds;
  j.ratio = is_right ? 0 : rounding::infinite;
  const bool is_number = detail::magnitude_bits(x) < detail::infinity_bits &&
                         detail::magnitude_bits(got) < detail::infinity_bits;
  const bool is_in_range = is_number && (x < 0 ? -x : x) <= rule.to.largest();
  if (is_in_range)
    j.error_ulp = (got - x) / ulp(rule.to, x);
  else
    j.error_ulp = is_right ? 0 : rounding::infinite;
  j.nonfinite_mismatch = !is_right && !is_number;
  return j;
}

}  // namespace opbound::conversion
