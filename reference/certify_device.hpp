// Judging outputs where they are: on the device, in its memory.
#pragma once

#include <optional>
#include <vector>

#include "ops/provider.hpp"
#include "reference/certify.hpp"

namespace opbound {

/// Copies the call's tensors to the provider's device, runs it there, and judges there by the same
/// arithmetic as `certify`, bit for bit. Only summaries and elements that double-double leaves open
/// come back. `bounds`: of a contract that is not our own; for our own they are made on the device.
/// Throws Unavailable, or ProviderFailure (out of device memory: what is needed and what there is).
std::vector<OutputCheck> certify_on_device(const Provider& provider, const Op& op, const Call& call,
                                           const BoundArrays& bounds = {});

/// The op's quick check of what the provider gives, in about the time that reading its tensors
/// takes; nothing where the op has none. Throws as above.
std::optional<QuickCheck> quick_check_on(const Provider& provider, const Op& op, const Call& call,
                                         std::uint64_t seed);

}  // namespace opbound
