// The order in which somebody's kernel adds, found by running it on probes, and whether it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bounds/reveal.hpp"
#include "ops/provider.hpp"
#include "suites/same_bits.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// A sum of a pass: one of its outputs, and the dimension that it is a sum over.
struct SumOfPass {
  int output = 0;     ///< place in the pass's tensor list
  int dimension = 0;  ///< place in the op's list
};

/// The sums that a pass consists of, part by part; none for an op that adds nothing.
std::vector<SumOfPass> sums_of(const Op& op, Direction direction);

struct RevealedSum {
  Revealed found;
  int variant = 0;  ///< the declared algorithm that it was replayed by
  Products products = Products::rounded;
  bool is_replayed = false;  ///< the tree gives the kernel's very bits on random inputs
  std::int64_t replayed_elements = 0;
  std::string note;  ///< why it was not replayed, or where it differs
  SameBits same_bits;
};

/// Probes the first element of one output of the case, replays the tree that comes out on random
/// inputs, every element of the output, and asks what else changes the bits. The case's sizes are
/// the kernel's; its inputs are made here. Throws as the provider does.
RevealedSum reveal_case(const CaseSpec& spec, const SumOfPass& sum, const Provider& provider,
                        std::int64_t most_calls);

/// What the provider declares, with the order that its kernel is found to have on this case in
/// place of "any order": for a case with one sum of that many terms, along a tree that was
/// replayed. Throws as the provider does.
Contract revealed_contract(const CaseSpec& spec, const Provider& provider, std::int64_t most_calls);

}  // namespace opbound
