// Agreement of our own kernels between devices: same source, same declared order, so the same bits.
#pragma once

#include <vector>

#include "suites/run.hpp"

namespace opbound {

/// Runs a case on the host that was judged on a device, with these `checks`, and compares: one
/// record of kind `agreement` for each output ("y"), and with Agreement::all one for everything
/// that judged it ("y judged": bounds, double-double reference, statistics). `exceeds` counts
/// elements that differ. `prepared`: the case's inputs; its outputs are overwritten.
std::vector<Record> agree_case(const CaseSpec& spec, const Provider& device, Prepared& prepared,
                               const std::vector<OutputCheck>& checks, Agreement agreement);

}  // namespace opbound
