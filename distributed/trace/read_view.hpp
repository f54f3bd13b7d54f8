// Tensors of a running call, on the host.
#pragma once

#include "distributed/trace/full_print.hpp"  // hash_of
#include "distributed/train/machine.hpp"
#include "ops/tensor.hpp"

namespace opbound::trace {

/// The view's elements, contiguous, in row-major order. Waits for what the machine was told before.
Tensor copied(train::Machine& machine, const TensorView& view);

}  // namespace opbound::trace
