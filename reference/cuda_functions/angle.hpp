// sin and cos of every fp32 number in double-double: the reduction of arguments that
// double_double_functions.hpp leaves undecided.
#pragma once

#include "reference/double_double_functions.hpp"
#include "reference/exact.hpp"

namespace opbound::cuda_function {

/// The first 288 bits of 2/pi, highest word first; tests/test_cuda_functions.cpp compares sin and
/// cos with MPFR's.
OPBOUND_HD inline std::uint32_t two_over_pi_word(int i) {
  constexpr std::uint32_t words[9] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
                                      0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a};
  return words[i];
}

/// The 32 bits of a whole number, lowest limb first, from bit `position` on.
OPBOUND_HD inline std::uint32_t bits_from(const std::uint32_t (&limbs)[8], int position) {
  const int limb = position / 32, shift = position % 32;
  const std::uint64_t both = limbs[limb] | std::uint64_t{limbs[limb + 1]} << 32;
  return static_cast<std::uint32_t>(both >> shift);
}

/// A fraction of 128 bits, two's complement, as the pair nearest to it but for 3 u^2.
OPBOUND_HD inline DoubleDouble signed_fraction(std::uint64_t high, std::uint64_t low) {
  const bool is_negative = high >> 63 != 0;
  if (is_negative) {
    low = ~low + 1;
    high = ~high + (low == 0 ? 1 : 0);
  }
  const auto part = [](std::uint64_t word, double unit) {
    return static_cast<double>(word & 0xffffffffU) * unit;
  };
  const DoubleDouble first = double_double::two_sum(part(high >> 32, 0x1p-32), part(high, 0x1p-64));
  const DoubleDouble second = double_double::two_sum(part(low >> 32, 0x1p-96), part(low, 0x1p-128));
  const DoubleDouble sum = first + second;
  return is_negative ? -sum : sum;
}

/// x = quadrant pi/2 + angle for 2^20 < x < 2^128 with a significand of 24 bits, by Payne and Hanek
/// (1983): x = m 2^e, and of 2/pi only bits that make x 2/pi neither a multiple of 4 nor too small.
///
/// Words whose last bit is worth 4 or more in x 2/pi are left out, six are kept. Their product with
/// m, in units of 2^-s, has s in [159, 195]; what lies beyond them is below m 2^-s <= 2^-135. Of
/// the s bits of the fraction the first 128 are taken: below 2^-127 in all, and 2^-126 times pi/2.
/// Relative to the angle: the pair 3, pi/2 1, a product 4, in units of u^2 = 2^-106.
OPBOUND_HD inline double_double::Angle reduce_large_angle(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const int e = static_cast<int>(bits >> 52) - 1023 - 23;
  const std::uint64_t m = ((bits & 0xfffffffffffffULL) | std::uint64_t{1} << 52) >> 29;
  const int first = e < 2 ? 0 : (e - 2) / 32;
  const int s = 32 * (first + 6) - e;
  std::uint32_t product[8] = {};
  std::uint64_t carry = 0;
  for (int j = 0; j < 6; ++j) {
    carry += m * two_over_pi_word(first + 5 - j);
    product[j] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  product[6] = static_cast<std::uint32_t>(carry);
  const auto two_words = [&](int position) {
    return bits_from(product, position) |
           static_cast<std::uint64_t>(bits_from(product, position + 32)) << 32;
  };
  const std::uint64_t high = two_words(s - 64), low = two_words(s - 128);
  const int quadrant = static_cast<int>(bits_from(product, s) & 3) + static_cast<int>(high >> 63);
  constexpr DoubleDouble half_pi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  return {signed_fraction(high, low) * half_pi, quadrant & 3};
}

/// sin(x), or with `quarters` = 1 cos(x), of a number that fp32 holds.
///
/// Errors: 16 relative to the result and 2^-119 for |x| <= 2^20 as in double_double_functions.hpp;
/// the relative ones of a large angle are 3 more and its absolute one is 2^-126. Where x is below
/// pi/4 nothing is subtracted from it, and the error is relative: 2^-101 covers 19 u^2, 2^-117 the
/// rest.
OPBOUND_HD inline Exact sine(double x, int quarters) {
  const double size = abs(x);
  double_double::Angle a = size <= double_double::angle_max ? double_double::reduce_angle({size, 0})
                                                            : reduce_large_angle(size);
  a.quadrant += quarters;
  const DoubleDouble positive = double_double::sin_in_quadrant(a);
  const DoubleDouble y = x < 0 && quarters == 0 ? -positive : positive;
  const double absolute = size < 0.785 ? 0 : 0x1p-117;
  return {y.high, y.low, 0x1p-101 * abs(y.high) + absolute, {}};
}

}  // namespace opbound::cuda_function
