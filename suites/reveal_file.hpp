// A revealed order as a JSON file: what was asked, of whom, and the tree.
#pragma once

#include <string>

#include "suites/reveal.hpp"

namespace opbound {

/// One JSON object on one line.
std::string reveal_text(const CaseSpec& spec, const SumOfPass& sum, const Provider& provider,
                        const RevealedSum& revealed);

/// The tree of such a file. InputError for a file that is none, whose tree was not replayed, or
/// whose nodes are not in the order in which they can be added.
SumTree read_tree(const std::string& path);

}  // namespace opbound
