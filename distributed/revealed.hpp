// The order in which an engine adds its ranks, found by probing (bounds/reveal.hpp), and whose it
// is.
#pragma once

#include <string>
#include <vector>

#include "distributed/check.hpp"
#include "suites/reveal.hpp"

namespace opbound {

struct RevealedOrder {
  RevealedSum sum;   ///< of the message's first element
  std::string like;  ///< the orders of ops/all_reduce.hpp that it is: "ring", "" where it is none
};

/// Probes the case's all-reduce with `most_calls` runs at most. Every process calls it. A tree that
/// replays is that of every element; a ring's is not. Throws as the engine does.
RevealedOrder reveal_order(const CollectiveSpec& collective, Engine& engine,
                           std::int64_t most_calls);

/// "order of the first element ((0+1)+(2+3)), as balanced_tree; replayed on 61 elements; ..."
std::string to_string(const RevealedOrder& order);

}  // namespace opbound
