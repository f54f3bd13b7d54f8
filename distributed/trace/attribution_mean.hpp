// A step's micro-batches taken together.
#pragma once

#include <vector>

#include "distributed/trace/attribution.hpp"

namespace opbound::trace {

/// The step's micro-batches as one: contributions, losses and shares are means, sizes of gradients'
/// differences roots of mean squares, gaps the largest, rank correlations the lowest.
Attribution mean_of_step(const std::vector<Attribution>& parts, std::int64_t step);

}  // namespace opbound::trace
