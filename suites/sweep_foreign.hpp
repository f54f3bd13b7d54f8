// A sweep of somebody else's kernel: its elements in tensors of many, one call after the other.
#pragma once

#include <span>

#include "ops/provider.hpp"
#include "ops/sweep.hpp"
#include "reference/sweep_device.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// The first rung of output `output` over `count` elements of the sweep, nothing of it left open.
/// `operands`: places of the inputs whose values the sweep decides. The kernel gets up to 2^18
/// elements in a call, along the first dimension that has both an operand and the output; operands
/// that lack it have one value for a whole call. Bounds and references are made on the host.
/// Throws Unavailable where there is no such dimension or the provider has no such kernel,
/// ProviderFailure where it fails.
FirstRung sweep_foreign(const CaseSpec& spec, const Provider& provider, const Contract& contract,
                        const Sweep& sweep, std::span<const std::size_t> operands, int output,
                        std::int64_t count, const SweepProgress& progress);

}  // namespace opbound
