// Suites name the algorithm that runs; a kernel of somebody else is the algorithm that it is.
#pragma once

#include <vector>

#include "ops/provider.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// The cases as the provider's kernels make them: each runs and is judged by what the provider
/// declares of the kernel for it. Cases that become one and the same are taken once, with a
/// reason to allow `vacuous` if any of them has one: then one of the algorithms deserves it. A case
/// for which no kernel is listed stays as it is. Cases of this project's own kernels are what they
/// are.
std::vector<CaseSpec> cases_for(const Provider& provider, std::vector<CaseSpec> cases);

/// Of the cases for which the provider lists no kernel, each of which gives a `skipped` record,
/// leaves the first of every op, direction and variant.
void thin_out_unlisted(const Provider& provider, std::vector<CaseSpec>& cases);

}  // namespace opbound
