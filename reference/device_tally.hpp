// Merging tallies on the device.
#pragma once

#include <algorithm>

#include "bounds/tally.hpp"
#include "ops/cuda.hpp"

namespace opbound::cuda {

/// Blocks for a loop that takes more than the grid in turn.
inline unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 16));
}

/// Tallies of `count` runs merged level by level into one, as on the host; waits for it.
Tally merged(Memory tallies, std::int64_t count);

}  // namespace opbound::cuda
