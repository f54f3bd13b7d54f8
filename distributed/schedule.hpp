// How a collective moves a message: for each chunk of it, which rank hands its part to which, and
// what the receiver does with it. The additions among them are the chunk's tree.
//
// The orders are those that ops/all_reduce.hpp names and bounds; nothing of it is used here, so
// that one can be held against the other.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bounds/along_tree.hpp"

namespace opbound {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };
inline constexpr std::array<std::string_view, 4> collective_names{"all_reduce", "reduce_scatter",
                                                                  "all_gather", "broadcast"};
constexpr std::string_view name_of(Collective c) {
  return collective_names[static_cast<std::size_t>(c)];
}
/// Does it add, or is it only told what others have?
constexpr bool adds(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce_scatter;
}

/// What a receiver does: adds to what it has, adds for the last time (the sum is complete then, and
/// a mean is divided), takes what has come in place of its own, or adds all ranks' in turn.
enum class Combine : std::uint8_t { add, last_add, copy, add_all };

/// Transfers of one chunk are listed in an order in which they can be done; but for what adds all
/// ranks', none receives twice in a round, and what it sends in a round is what it had before.
struct Transfer {
  std::int32_t from, to;
  std::int32_t round;
  Combine combine;
};

/// Elements [first, first + count) of a message.
struct Chunk {
  std::int64_t first = 0, count = 0;
};

/// A collective among so many ranks by an order of ops/all_reduce.hpp.
struct Schedule {
  Collective collective = Collective::all_reduce;
  int order = 0;  ///< a variant of all_reduce
  std::int32_t ranks = 1;
  std::int32_t group = 8;  ///< ranks of a node, for hierarchical
};

/// What would have to be otherwise, where there is no such schedule; else empty.
std::string_view refusal(const Schedule& schedule);

/// Into how many chunks a message is cut; those of a short message may be empty. Where a collective
/// leaves or takes shards, chunk c is rank c's.
std::int32_t chunk_count(const Schedule& schedule);
Chunk chunk_of(const Schedule& schedule, std::int64_t elements, std::int32_t chunk);

/// Chunk c's transfers. An all-reduce is a reduction and then its spreading.
std::vector<Transfer> transfers_of(const Schedule& schedule, std::int32_t chunk);

/// The order in which a chunk's ranks are added, from its transfers.
SumTree tree_of(const Schedule& schedule, std::int32_t chunk);

/// Are all elements of such a message added in one order, whatever their place in it?
bool has_one_order(const Schedule& schedule, std::int64_t elements);

/// The variants of all_reduce that ranks can keep by handing on sums, and their names.
std::vector<int> all_orders();
std::string_view name_of_order(int order);

}  // namespace opbound
