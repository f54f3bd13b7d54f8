// Agreement of our own kernels between devices: same source, same declared order, so the same bits.
#pragma once

#include <vector>

#include "ops/provider.hpp"
#include "reports/record.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// Runs the case on the host and on a device and compares bits, NaN canonical: one record of kind
/// `agreement` for each output, and one for its running bound ("y", "y bound": value and radius).
/// `exceeds` counts elements that differ.
std::vector<Record> agree_case(const CaseSpec& spec, const Provider& device);

}  // namespace opbound
