// Rounding to odd: the tool that makes a second rounding harmless (Boldo and Melquiond 2008).
#pragma once

#include <bit>
#include <cstdint>

#include "ops/portable.hpp"

namespace opbound::detail {

/// a + b rounded to odd: the exact sum if it is a double, else the neighbour with an odd last bit.
/// Rounding it once more to a format with at least two digits fewer gives the sum correctly
/// rounded.
OPBOUND_HD constexpr double round_to_odd(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);  // two_sum (Knuth 1969)
  const auto bits = std::bit_cast<std::int64_t>(sum);
  const bool is_finite = (bits & 0x7ff0000000000000LL) != 0x7ff0000000000000LL;
  if (!is_finite || !(error != 0) || (bits & 1) != 0) return sum;
  return std::bit_cast<double>(bits + ((error > 0) == (sum > 0) ? 1 : -1));
}

}  // namespace opbound::detail
