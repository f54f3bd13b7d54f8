// Sweeping on the current device.
#pragma once

#include <functional>

#include "ops/sweep.hpp"
#include "reference/certify.hpp"

namespace opbound {

/// Called with the elements that are done since the last call.
using SweepProgress = std::function<void(std::uint64_t)>;

/// Room for elements that fp64 leaves open; what goes beyond it stays undecided.
inline constexpr std::uint64_t sweep_open_room = std::uint64_t{1} << 20;

/// The first rung, fp64, of elements [0, count) of one output; `elements` is left empty. Throws
/// Unavailable in a build without CUDA.
FirstRung sweep_on_device(const Op& op, const Sweep& sweep, int output, std::int64_t count,
                          const SweepProgress& progress);

}  // namespace opbound
