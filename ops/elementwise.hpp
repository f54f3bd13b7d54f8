// Independent elements in blocks of one team's width: what a part of an elementwise op derives
// from.
#pragma once

#include "ops/describe.hpp"
#include "ops/team.hpp"

namespace opbound {

/// One output element for each place along dimension `Dim`, or along two of them.
template <int Dim = 0, int Other = -1>
struct elementwise_blocks {
  OPBOUND_HD static std::int64_t count(const Sizes& s) {
    if constexpr (Other >= 0) return s[Dim] * s[Other];
    return s[Dim];
  }
  OPBOUND_HD static std::int64_t blocks(const Sizes& s) {
    return (count(s) + team_width - 1) / team_width;
  }
  OPBOUND_HD static std::int64_t block_of(const Sizes&, int, std::int64_t i) {
    return i / team_width;
  }
  OPBOUND_HD static std::int64_t longest_sum(const Sizes&) { return 1; }

  /// action(i) for every element of the block.
  template <class Team, class F>
  OPBOUND_HD static void each(const Team& team, const Sizes& s, std::int64_t block, F action) {
    const std::int64_t first = block * team_width, left = count(s) - first;
    team.map(left < team_width ? left : team_width, [&](std::int64_t k) { action(first + k); });
  }
};

}  // namespace opbound
