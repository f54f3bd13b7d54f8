// The all-reduce whose bits do not depend on how many ranks there are: micro-batches in one global
// order under one balanced tree, of which a rank holds an aligned part.
//
// Bound: that of all_reduce's variant balanced_tree over the micro-batches, whose bits these are
// (ops/all_reduce.hpp; height ceil(log2 m), bounds/README.md 5). Every node of the tree is rounded
// to the wire's format, those inside of a rank too: else the bits would depend on where the ranks'
// borders lie. In fp32 on an fp32 wire that is a contract of its own.
//
// Between ranks halves are exchanged along the tree, neighbours first, and gathered the other way:
// 2 (p - 1) / p of the message leave each rank, as in a ring, in 2 log2 p steps.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "distributed/program.hpp"

namespace opbound {

/// Micro-batches [first, first + count) of a rank.
struct Share {
  std::int64_t first = 0, count = 0;
};

/// What a rank holds of the balanced tree: the first half is the longer one at every level. `ranks`
/// is a power of two and at most `micro_batches`.
Share share_of(std::int64_t micro_batches, std::int32_t ranks, std::int32_t rank);

/// What has to be otherwise, where there is no such all-reduce; else empty.
std::string_view reproducible_refusal(std::int64_t micro_batches, std::int32_t ranks);

/// How many sums of a tree over so many terms are complete after each of them, all being added from
/// the left: the last term and sum that are held become one so many times.
std::vector<std::int32_t> additions_after(std::int64_t terms);
/// How many sums and terms are held at a time.
std::int32_t most_held(std::span<const std::int32_t> additions);

/// Writes a micro-batch's gradient, as it is stored, into a message's elements.
using Gradient = std::function<void(std::int64_t micro_batch, std::span<double> elements)>;

/// Adds a rank's micro-batches into `buffer`, along the tree, in the order in which they come; at
/// most log2 of their number are held at a time. reducer.terms is the number of all of them.
void add_share(const Reducer& reducer, const Share& share, const Gradient& gradient,
               std::span<double> buffer);

/// The sum or mean of all micro-batches on every rank; each rank is asked for its share's only.
/// reducer.terms is their number. Throws InputError where reproducible_refusal says why, and
/// ProviderFailure where the transport breaks.
void reproducible_all_reduce(Communicator& communicator, const Reducer& reducer,
                             const Gradient& gradient, std::span<double> buffer);

}  // namespace opbound
