// An array of which each rank has a part, whole on every rank's host.
#pragma once

#include <cstddef>
#include <vector>

#include "distributed/collectives.hpp"
#include "distributed/train/layout.hpp"
#include "distributed/train/machine.hpp"
#include "ops/tensor.hpp"

namespace opbound::train {

/// The elements that lie at `array` on this rank: `owned`, range after range.
std::vector<std::byte> owned_array(Machine& machine, const std::vector<Range>& owned,
                                   Element element, const std::byte* array);

/// All of the flat array; every rank calls it. What is owned is the whole, or this rank's part of
/// every unit.
std::vector<std::byte> whole_array(const Layout& layout, Collectives& ranks, Machine& machine,
                                   const std::vector<Range>& owned, Element element,
                                   const std::byte* array);

}  // namespace opbound::train
