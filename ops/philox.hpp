// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC 2011): a pure
// function of (seed, counter), so a random number depends on its place alone.
#pragma once

#include <array>
#include <cstdint>

#include "ops/format.hpp"
#include "ops/portable.hpp"

namespace opbound {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Four uniform 32-bit words for one counter and key.
OPBOUND_HD constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    const auto high = [](std::uint64_t p) { return static_cast<std::uint32_t>(p >> 32); };
    const auto low = [](std::uint64_t p) { return static_cast<std::uint32_t>(p); };
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// Word `index` of the stream (seed, offset): lane index % 4 of counter index / 4.
OPBOUND_HD constexpr std::uint32_t philox_word(std::uint64_t seed, std::uint64_t offset,
                                               std::uint64_t index) {
  const std::uint64_t block = index / 4;
  const auto words = [](std::uint64_t v) {
    return PhiloxKey{static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(v >> 32)};
  };
  const PhiloxKey b = words(block), o = words(offset);
  return philox({b[0], b[1], o[0], o[1]}, words(seed))[index % 4];
}

/// A cast with stochastic rounding: element `index` of the stream (seed, offset) decides, so the
/// result is the same whatever thread or grid computes it. E[result] = x to within 2^-32 ulp.
OPBOUND_HD constexpr double stochastic_cast(const Format& f, double x, std::uint64_t seed,
                                            std::uint64_t offset, std::uint64_t index) {
  return round_stochastic(f, x, philox_word(seed, offset, index));
}

}  // namespace opbound
