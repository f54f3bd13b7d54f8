// Faults that are planted in a training run, for alarms that shall find them.
#pragma once

#include <memory>
#include <string>

#include "distributed/train/observer.hpp"

namespace opbound::claims {

/// Changes something from step `from` on:
///   drift      h.0.attn.c_attn.bias moves to the right by 0.0017 in 832 steps, beside its updates
///   truncated  the mean gradient's bits beyond bf16's are cut off, where a bf16 run rounds them
///   rotated    two columns of h.0.attn.c_attn.weight's gradient are turned by 0.01 radians
///   large_norm the gradient of h.1.ln_1.weight is 300 times too large
///   late_layer the gradient of layer 1 lacks a quarter: a sum that was read before its end
///   nan        one element of a micro-batch's gradient of h.1.mlp.c_fc.weight is NaN, once
/// Throws InputError for any other name. Null for an empty one.
std::unique_ptr<train::Observer> planted_fault(const std::string& name, std::int64_t from);

}  // namespace opbound::claims
