// Finds the order in which a black box adds its terms: FPRev (Xie, Gao, Wang and Xue 2025), after
// the description, with counts in parts for results of few digits. Host only.
//
// Terms i and j are M and -M, so large that a unit added to them is lost, the others units. What is
// added before M and -M meet is absorbed, so the result counts the terms that are not below their
// lowest common ancestor. Those counts, of some pairs, are the tree.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "bounds/along_tree.hpp"

namespace opbound {

/// What a term of a probe is.
enum class ProbeTerm : std::uint8_t { zero, unit, plus, minus };

/// Adds these terms and gives the sum in units.
using SumProbe = std::function<double(std::span<const ProbeTerm>)>;

struct Revealed {
  SumTree tree;                ///< empty where there is none
  std::string refusal;         ///< why there is none
  bool is_miscounted = false;  ///< a sum was no number of units: it may not count so far
  std::int64_t calls{};        ///< of the probe
};

/// The tree of a sum of n terms, n >= 1. Chains take about 2 n probes, balanced trees n log2 n, no
/// tree more than n (n - 1) / 2; times (n - 2) / counts where that is more than 1. `counts`: so
/// many units and no more are set at a time, because the sum's format or that of the result counts
/// no further; at least 1. Refuses more than 2^14 terms, where more than `most_calls` would be
/// needed, and where the results are those of no tree: terms whose errors are compensated, orders
/// that depend on data or time.
Revealed reveal_sum(std::int64_t n, std::int64_t counts, std::int64_t most_calls,
                    const SumProbe& probe);

/// The largest number of additions between a term and the sum; a node of k terms counts k - 1.
std::int64_t height(const SumTree& tree);

/// Are the same terms and sums added in both, whichever operand stands first?
bool is_same_order(const SumTree& a, const SumTree& b);

/// ((0+1)+2)+3, with runs of a chain as 0..7; of a high tree that is no chain the height alone.
std::string to_string(const SumTree& tree);

}  // namespace opbound
