// A training spec from the JSON that a log holds of it: the other way round from train::json_of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "distributed/train/training_spec.hpp"

namespace opbound::trace {

/// The spec whose json_of this is, without a file and without where checkpoints go. Throws
/// InputError, saying `where`, for anything that json_of does not write, and for a spec that is not
/// valid.
train::TrainingSpec logged_spec(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace opbound::trace
