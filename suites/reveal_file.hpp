// A revealed order as a JSON file: what was asked, of whom, and the tree.
#pragma once

#include <string>

#include "suites/reveal.hpp"

namespace opbound {

/// One JSON object on one line.
std::string reveal_text(const CaseSpec& spec, const SumOfPass& sum, const Provider& provider,
                        const RevealedSum& revealed);

/// What such a file says.
struct OrderFile {
  std::string op, direction, part, summed, precision;
  std::string variant;  ///< the algorithm that it was replayed by; empty in older files
  SumTree tree;
};

/// InputError for a file that is none, whose tree was not replayed, or whose nodes are not in the
/// order in which they can be added.
OrderFile read_order_file(const std::string& path);

/// InputError where the order is another op's, pass's, precision's or algorithm's, or of another
/// number of terms than the case has.
void require_fit(const OrderFile& order, const std::string& path, const CaseSpec& spec);

}  // namespace opbound
