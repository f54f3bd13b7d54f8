// Records of attributions: JSON Lines, which README.md beside this file explains. Reports and heat
// maps are made from these.
//
// {"schema":1,"kind":"attribution","step":3,"micro_batch":0,"loss":...,"classes":42,...}
// {"schema":1,"kind":"attribution_class","step":3,"micro_batch":0,"part":"matmul","layer":0,...}
// {"schema":1,"kind":"attribution_parameter","step":3,"micro_batch":0,"name":"wte.weight",...}
// {"schema":1,"kind":"attribution_gradient","step":3,"micro_batches":4,"name":"wte.weight",...}
// {"schema":1,"kind":"attribution_swap","step":3,"micro_batch":0,"part":"mlp:gelu",...}
#pragma once

#include <string>
#include <vector>

#include "distributed/trace/training_again.hpp"

namespace opbound::trace {

inline constexpr int attribution_schema = 1;

/// One line each, without the newline: of every micro-batch the attribution, its classes and its
/// parameters; then the steps' gradients and the swaps. Equal runs give equal bytes.
std::vector<std::string> attribution_lines(const train::TrainingSpec& spec,
                                           const AttributedRun& run);

}  // namespace opbound::trace
