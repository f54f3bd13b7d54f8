// `opbound train --evaluate`: a trained model beside another one, or beside itself under another
// policy.
#pragma once

#include <filesystem>
#include <string>

#include "distributed/train/training_spec.hpp"

namespace opbound {

struct EvaluateOptions {
  std::string other;              ///< a policy, or weights: a file, or a folder of checkpoints
  std::filesystem::path weights;  ///< of the model itself: a file or a folder
  std::string device;
  bool is_quiet = false;
};

/// Prints how far apart the two are on the committed prompts; gives the exit code. Throws
/// InputError where something is missing.
int evaluate_against(const train::TrainingSpec& spec, const EvaluateOptions& options);

}  // namespace opbound
