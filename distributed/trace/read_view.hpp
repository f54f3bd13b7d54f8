// Tensors of a running call, on the host.
#pragma once

#include <cstdint>

#include "distributed/train/machine.hpp"
#include "ops/tensor.hpp"

namespace opbound::trace {

/// The view's elements, contiguous, in row-major order. Waits for what the machine was told before.
Tensor copied(train::Machine& machine, const TensorView& view);

/// The elements' hashes, NaN canonical, added.
std::uint64_t hash_of(const Tensor& tensor);

}  // namespace opbound::trace
