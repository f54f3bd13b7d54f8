// A sweep of somebody else's kernel: its elements in tensors of many, one call after the other.
#pragma once

#include <span>
#include <vector>

#include "ops/provider.hpp"
#include "ops/sweep.hpp"
#include "reference/sweep_device.hpp"
#include "suites/suite.hpp"

namespace opbound {

struct ForeignSweep {
  FirstRung rung;                   ///< nothing of it is left open
  std::vector<double> worst_input;  ///< what the operands were for the tally's worst element
};

/// Output `output` over `count` elements of the sweep. `operands`: places of the inputs whose
/// values the sweep decides. The kernel gets up to 2^18 elements in a call, along the first
/// dimension that has both an operand and the output. An operand that lacks it has one value for a
/// whole call: one pattern, where the call ends; or of drawn values that of its first element.
/// Bounds and references are made on the host. Throws Unavailable where there is no such dimension
/// or the provider has no such kernel, ProviderFailure where it fails.
ForeignSweep sweep_foreign(const CaseSpec& spec, const Provider& provider, const Contract& contract,
                           const Sweep& sweep, std::span<const std::size_t> operands, int output,
                           std::int64_t count, const SweepProgress& progress);

}  // namespace opbound
