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

/// The first rung alone, for a call whose views hold device addresses and whose outputs are there:
/// double-double, or fp64 and a bound for every order where the op has that for large problems.
std::vector<FirstRung> first_rung_on_device(const Op& op, const Call& there,
                                            const BoundArrays& bounds = {});

/// The op's quick check of what the provider gives, in about the time that reading its tensors
/// takes; nothing where the op has none. Throws as above.
std::optional<QuickCheck> quick_check_on(const Provider& provider, const Op& op, const Call& call,
                                         std::uint64_t seed);

}  // namespace opbound
