// The experiments that train, by source file.
#pragma once

#include "distributed/claims/experiment.hpp"

namespace opbound::claims {

Experiments run_experiments();       ///< runs side by side
Experiments gradient_experiments();  ///< gradients of single steps
Experiments process_experiments();   ///< runs in a process of their own
Experiments node_experiments();      ///< the nodes of a run
Experiments audit_experiments();     ///< settings of a machine
Experiments suspect_experiments();   ///< what is left to suspect of a faulty run
Experiments compiled_experiments();  ///< PyTorch's compiler and its cache

}  // namespace opbound::claims
