// What a run's settings say before its first step: numbers that vanish in the format that they are
// stored in, updates that are too small for the weights, texts that come more than once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/train/training_spec.hpp"

namespace opbound::trace {

/// One line for each thing that is suspicious; none of them is an error. `windows`: of an epoch of
/// the text.
std::vector<std::string> suspicious_settings(const train::TrainingSpec& spec, std::int64_t windows);

}  // namespace opbound::trace
