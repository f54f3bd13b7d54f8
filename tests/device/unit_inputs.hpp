// Random and adversarial inputs of one instruction of a matrix unit: pure functions of a tile's
// number, so that the host makes the device's inputs again.
#pragma once

#include "ops/format.hpp"
#include "ops/number.hpp"
#include "ops/philox.hpp"

namespace opbound::unit_inputs {

/// A tile: 64 rows of k factors times k rows of 8, and 64 by 8 accumulators.
inline constexpr int rows = 64, columns = 8, most_terms = 32;

/// What a tile's factors are like, and what its accumulators.
enum class Factors : std::uint8_t {
  near_one,     ///< of one binade
  any_number,   ///< every finite pattern
  any_pattern,  ///< NaN and infinity too, seldom
  spread,       ///< exponents 16 apart
  subnormal,    ///< every second one, the others large
  large,        ///< of the topmost three binades
  powers,       ///< of two, and zeros
  cancelling    ///< every product stands there twice, with both signs, or nearly so
};
enum class Accumulators : std::uint8_t {
  zero,
  any_number,
  any_pattern,
  near_products,  ///< 2^-30 to 2^30 times their sum
  cancelling,     ///< minus their sum
  nearly_so,      ///< minus their sum, last digits apart
  large,          ///< next to overflow
  subnormal
};
inline constexpr int kinds = 8;

struct Tile {
  std::uint64_t number;
  Format a, b;  ///< what is stored

  OPBOUND_HD Factors factors() const { return static_cast<Factors>(number % kinds); }
  OPBOUND_HD Accumulators accumulators() const {
    return static_cast<Accumulators>(number / kinds % kinds);
  }

  OPBOUND_HD double factor_a(int row, int t) const {
    const int first = factors() == Factors::cancelling ? t - t % 2 : t;
    const double x = of_words(a, word(0, row, first), word(1, row, first));
    if (first == t) return x;
    return word(2, row, t) % 8 == 0 ? -neighbour(a, x) : -x;
  }
  OPBOUND_HD double factor_b(int t, int column) const {
    const int first = factors() == Factors::cancelling ? t - t % 2 : t;
    return of_words(b, word(3, first, column), word(4, first, column));
  }
  /// `sum`: of the products, more or less.
  OPBOUND_HD float accumulator(int row, int column, double sum) const {
    const std::uint32_t w = word(5, row, column), v = word(6, row, column);
    const double sign = v % 2 == 0 ? 1 : -1;
    const double fraction = 1 + static_cast<double>(w >> 9) * 0x1p-23;
    constexpr Format sums = fp32;  // a copy: device code has no address of the other
    switch (accumulators()) {
      case Accumulators::zero:
        return v % 16 == 1 ? -0.0F : 0.0F;
      case Accumulators::any_number:
        return static_cast<float>(decode(sums, finite_bits(sums, w)));
      case Accumulators::any_pattern:
        return static_cast<float>(v % 8 == 0 ? special(sums, w)
                                             : decode(sums, finite_bits(sums, w)));
      case Accumulators::near_products:
        return rounded(sum * sign * fraction * power_of_two(static_cast<int>(v / 2 % 61) - 30));
      case Accumulators::cancelling:
        return rounded(-sum);
      case Accumulators::nearly_so:
        return rounded(-sum * (1 + sign * power_of_two(-1 - static_cast<int>(v / 2 % 25))));
      case Accumulators::large:
        return static_cast<float>(sign * fraction *
                                  power_of_two(127 - static_cast<int>(v / 2 % 3)));
      default:
        return static_cast<float>(decode(sums, (w & 0x807fffffU)));
    }
  }

 private:
  /// Random words of a tile's place.
  OPBOUND_HD std::uint32_t word(std::uint32_t stream, int i, int j) const {
    return philox({static_cast<std::uint32_t>(i * most_terms + j), stream,
                   static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)},
                  {2026, 5})[0];
  }

  OPBOUND_HD static float rounded(double x) {
    constexpr Format sums = fp32;
    return static_cast<float>(abs(x) < sums.largest() ? round_to(sums, x) : 1);
  }

  /// NaN, infinities and zeros.
  OPBOUND_HD static double special(const Format& f, std::uint32_t w) {
    const double sign = w % 2 == 0 ? 1 : -1;
    if (w / 2 % 4 == 0) return sign * 0.0;
    if (w / 2 % 4 == 1 || !f.has_infinity()) return std::bit_cast<double>(0x7ff8000000000000ULL);
    return sign * std::bit_cast<double>(detail::infinity_bits);
  }

  OPBOUND_HD static std::uint64_t pattern(const Format& f, std::uint32_t w) {
    const int bits = f.bits();
    return bits == 32 ? w : w >> (32 - bits);
  }
  /// The patterns beyond the largest number are those of the numbers below them.
  OPBOUND_HD static std::uint64_t finite_bits(const Format& f, std::uint32_t w) {
    const std::uint64_t p = pattern(f, f.kind == Kind::tf32 ? w & ~0x1fffU : w);
    const double x = decode(f, p);
    return x - x == 0 ? p : p ^ (std::uint64_t{1} << (f.bits() - 2));
  }

  OPBOUND_HD static double neighbour(const Format& f, double x) {
    const double next = x + ulp(f, x);
    return next <= f.largest() ? round_to(f, next) : x;
  }

  /// sign (1 + fraction) 2^e, where f has it.
  OPBOUND_HD static double number_of(const Format& f, int e, std::uint32_t w) {
    const int least = f.exponent_min - f.digits + 1;
    const int in = e < least ? least : e > f.exponent_max ? f.exponent_max : e;
    const double x = (1 + static_cast<double>(w >> 9) * 0x1p-23) * power_of_two(in);
    const double r = truncate_to(f, x < f.largest() ? x : f.largest());
    return w % 2 == 0 ? r : -r;
  }

  OPBOUND_HD double of_words(const Format& f, std::uint32_t w, std::uint32_t v) const {
    switch (factors()) {
      case Factors::near_one:
        return number_of(f, 0, w);
      case Factors::any_number:
        return decode(f, finite_bits(f, w));
      case Factors::any_pattern:
        return v % 64 == 0 ? special(f, w) : decode(f, finite_bits(f, w));
      case Factors::spread:
        return number_of(f, static_cast<int>(v % 17) - 8, w);
      case Factors::subnormal: {
        const auto whole = static_cast<double>((w >> 2) % (1U << (f.digits - 1)));
        const double small = f.smallest_subnormal() * (w % 2 == 0 ? whole : -whole);
        return v % 2 == 0 ? small : number_of(f, f.exponent_max - static_cast<int>(v / 2 % 8), w);
      }
      case Factors::large:
        return number_of(f, f.exponent_max - static_cast<int>(v % 3), w);
      case Factors::powers: {
        const double x = number_of(f, static_cast<int>(v / 2 % 33) - 16, w & 1U);
        return v % 2 == 0 ? 0 * x : x;
      }
      default:
        return number_of(f, static_cast<int>(v % 21) - 10, w);
    }
  }
};

}  // namespace opbound::unit_inputs
