// A training run of a few milliseconds a step, for tests.
#pragma once

#include <string>

#include "distributed/train/training_spec.hpp"

namespace opbound {

inline train::TrainingSpec tiny_training(const std::string& policy) {
  train::TrainingSpec s;
  s.model.name = "tiny";
  s.model.layers = 2;
  s.model.heads = 2;
  s.model.width = 16;
  s.model.hidden = 32;
  s.model.context = 12;
  s.policy = train::read_policy(policy);
  s.data = OPBOUND_SOURCE_DIR "/suites/training/text.txt";
  s.steps = 3;
  s.micro_batches = 4;
  s.sequences = 2;
  return s;
}

}  // namespace opbound
