// Which formats a library's own collectives know as numbers.
#pragma once

#include "ops/tensor.hpp"

namespace opbound {

/// Are elements of this kind added by MPI's and NCCL's own collectives? All others would have to be
/// moved as bytes, which add as integers.
constexpr bool is_moved_and_added(Element e) { return is_float(e) && e != Element::tf32; }

}  // namespace opbound
