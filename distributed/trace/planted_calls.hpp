// Planted faults that stand in a call of a tape. planted.cpp lists them.
#pragma once

#include <memory>

#include "distributed/train/observer.hpp"

namespace opbound::trace {

// Each begins at `first`, a step from 0.

/// Layer 1's MLP stores its products truncated instead of rounded to nearest.
std::unique_ptr<train::Observer> truncating_layer(std::int64_t first);
/// The gradient of layer 0's query weights comes one column too far right.
std::unique_ptr<train::Observer> rotated_query_gradient(std::int64_t first);
/// The gradient of layer 1's first norm is 300 times too large.
std::unique_ptr<train::Observer> large_norm_gradient(std::int64_t first);
/// Layer 0's first norm takes 0 for its eps: what 1e-8 is in fp16.
std::unique_ptr<train::Observer> vanished_eps(std::int64_t first);
/// The losses of every second row lie above a clamp, whose gradient is 0.
std::unique_ptr<train::Observer> clamped_loss(std::int64_t first);
/// The loss is divided by 65536 before its gradient is taken.
std::unique_ptr<train::Observer> divided_loss(std::int64_t first);
/// Dropout that is computed again draws other random numbers.
std::unique_ptr<train::Observer> unrestored_random(std::int64_t first);
/// Layer 1's attention output is read before all of it was written: its last rows are those of the
/// micro-batch before.
std::unique_ptr<train::Observer> stale_rows(std::int64_t first);
/// The gradients of two heads of layer 0's keys are exchanged.
std::unique_ptr<train::Observer> swapped_heads(std::int64_t first);

}  // namespace opbound::trace
