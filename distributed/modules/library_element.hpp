// Which formats a library's own collectives know as numbers.
#pragma once

#include "ops/tensor.hpp"

namespace opbound {

/// Are elements of this kind added by MPI's and NCCL's own collectives? All others would have to be
/// moved as bytes, which add as integers.
constexpr bool is_moved_and_added(Element e) {
  return e == Element::fp64 || e == Element::fp32 || e == Element::bf16 || e == Element::fp16;
}

}  // namespace opbound
