// An attributed run for a reader.
#pragma once

#include <string>

#include "distributed/trace/training_again.hpp"
#include "reports/table.hpp"

namespace opbound::trace {

/// Of each step: the losses, what was predicted, what is left, what replays say; then tables by op,
/// by layer, by precision and the largest classes, parameters whose gradients deviate most, and
/// swaps. Ends with a newline.
std::string attribution_table(const train::TrainingSpec& spec, const AttributedRun& run,
                              const Terminal& terminal);

/// Of each step one line: "step 3: loss +3.2e-4 ..., unattributed 2.5e-6 of ...".
std::string attribution_last_lines(const AttributedRun& run);

}  // namespace opbound::trace
