// Initial weights: a function of (seed, name, index), so that every machine and rank makes the
// same.
#pragma once

#include <span>

#include "distributed/train/model.hpp"

namespace opbound::train {

/// Normal numbers with the parameter's mean and deviation, in double.
void fill_initial(const ParameterSpec& p, std::uint64_t seed, std::span<double> to);

}  // namespace opbound::train
