// Elements counted by the size of their error.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "ops/portable.hpp"

namespace opbound {

/// Errors in ulp of the output format: entry 0 counts errors of 0, entry 1 those in (0, 1/2], entry
/// k >= 2 those in (2^(k-3), 2^(k-2)], entry 63 all above 2^60. Trailing zeros are left out.
struct UlpHistogram {
  static constexpr std::size_t most_entries = 64;
  using Counts = std::array<std::uint64_t, most_entries>;

  std::vector<std::uint64_t> counts;

  UlpHistogram() = default;
  explicit UlpHistogram(std::span<const std::uint64_t> all) {
    std::size_t size = all.size();
    while (size > 0 && all[size - 1] == 0) --size;
    counts.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
  }

  /// Where an error belongs; error_ulp >= 0, infinity allowed.
  OPBOUND_HD static std::size_t entry_of(double error_ulp) {
    if (!(error_ulp > 0.5)) return error_ulp > 0 ? 1 : 0;
    const auto bits = std::bit_cast<std::uint64_t>(error_ulp);
    // 2^(biased - 1023) <= error, so it is at most 2^(entry - 2)
    const std::uint64_t biased = bits >> 52;
    const std::size_t entry = biased - 1021 + (bits << 12 != 0 ? 1 : 0);
    return entry < most_entries ? entry : most_entries - 1;
  }

  void add(double error_ulp) {
    if (!(error_ulp >= 0)) throw std::logic_error("an error is at least 0 ulp");
    const std::size_t entry = entry_of(error_ulp);
    if (counts.size() <= entry) counts.resize(entry + 1);
    ++counts[entry];
  }

  bool operator==(const UlpHistogram&) const = default;
};

}  // namespace opbound
