// Passes whose elements do not depend on each other: a block is one team's width of them.
#pragma once

#include "ops/describe.hpp"
#include "ops/team.hpp"

namespace opbound {

/// A family over all elements of a tensor whose axes are these dimensions of the op.
template <int... dims>
struct element_blocks {
  OPBOUND_HD static std::int64_t count(const Sizes& s) { return (s[dims] * ...); }
  OPBOUND_HD static std::int64_t blocks(const Sizes& s) {
    return (count(s) + team_width - 1) / team_width;
  }
  OPBOUND_HD static std::int64_t block_of(const Sizes&, int, std::int64_t i) {
    return i / team_width;
  }
  OPBOUND_HD static std::int64_t longest_sum(const Sizes&) { return 1; }

  /// Calls action(i) for every element i of the block.
  template <class Team, class F>
  OPBOUND_HD static void each(const Team& team, const Sizes& s, std::int64_t block, F action) {
    const std::int64_t first = block * team_width;
    const std::int64_t left = count(s) - first;
    team.map(left < team_width ? left : team_width, [&](std::int64_t k) { action(first + k); });
  }
};

}  // namespace opbound
