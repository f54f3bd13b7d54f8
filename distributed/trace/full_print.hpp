// What a fingerprint holds that needs a whole gradient, and the weights before and after.
#pragma once

#include <cstdint>
#include <vector>

#include "distributed/trace/trace.hpp"
#include "ops/tensor.hpp"

namespace opbound::trace {

/// The places of the largest elements by magnitude, the largest first, the first of equals first;
/// NaN stands last.
std::vector<std::int64_t> largest_places(const Tensor& gradient);

/// Fills in |w' - w| / |w|, and the share of updates that were lost.
void compare_weights(const Tensor& gradient, const Tensor& before, const Tensor& after,
                     FullPrint& full);

/// The elements' hashes, NaN canonical, added.
std::uint64_t hash_of(const Tensor& tensor);

}  // namespace opbound::trace
