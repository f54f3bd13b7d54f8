// How the work of a part is dealt out to blocks: what a part derives from.
//
// A part makes something for each place along some of the op's dimensions. Its outputs have these
// dimensions among their own, whatever others they have, so that the place of an element says which
// block makes it (block_of in ops/instantiate/walk.hpp).
#pragma once

#include "ops/describe.hpp"
#include "ops/team.hpp"

namespace opbound {

/// The number of places along these dimensions of the op; 1 along none.
template <int... Dims>
OPBOUND_HD constexpr std::int64_t places_along(const Sizes& s) {
  return (std::int64_t{1} * ... * s[Dims]);
}

/// One block for each place; one for everything along no dimensions.
template <int... Dims>
struct blocks_along {
  static constexpr std::array<int, sizeof...(Dims)> along{Dims...};
  static constexpr int places_each = 1;
  OPBOUND_HD static std::int64_t blocks(const Sizes& s) { return places_along<Dims...>(s); }
};

/// Places that have nothing to do with each other, one team's width of them in each block.
template <int... Dims>
struct elementwise_blocks {
  static constexpr std::array<int, sizeof...(Dims)> along{Dims...};
  static constexpr int places_each = team_width;
  OPBOUND_HD static std::int64_t blocks(const Sizes& s) {
    return (places_along<Dims...>(s) + team_width - 1) / team_width;
  }

  /// action(i) for every place of the block.
  template <class Team, class F>
  OPBOUND_HD static void each(const Team& team, const Sizes& s, std::int64_t block, F action) {
    const std::int64_t first = block * team_width, left = places_along<Dims...>(s) - first;
    team.map(left < team_width ? left : team_width, [&](std::int64_t k) { action(first + k); });
  }
};

/// A part's longest reduction is over all places along these dimensions. A part that does not
/// derive from this one, and says nothing of its own, reduces nothing.
template <int... Dims>
struct sums_over {
  OPBOUND_HD static std::int64_t longest_sum(const Sizes& s) { return places_along<Dims...>(s); }
};

}  // namespace opbound
