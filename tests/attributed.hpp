// A tiny run whose micro-batches tests capture and attribute.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "distributed/trace/training_again.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {

inline train::TrainingSpec tiny(const std::string& policy) {
  train::TrainingSpec s = tiny_training(policy);
  s.micro_batches = 2;
  return s;
}

/// Calls `use` with micro-batch 1 of step 1, once its calls are done.
inline void with_captured(
    const train::TrainingSpec& spec,
    const std::function<void(const train::RunView&, const ExactTape&, Captured&)>& use) {
  const Capture* seen = nullptr;
  Capture capture([](std::int64_t step, std::int64_t m) { return step == 1 && m == 1; },
                  [&](Captured& c) { use(seen->run(), seen->exact(), c); });
  seen = &capture;
  train::TrainOptions options;
  options.observers = {&capture};
  train::Trainer trainer(spec, options);
  trainer.set_initial_weights();
  trainer.step();
  trainer.step();
}

/// Micro-batch 1 of step 1, attributed.
inline Attribution attributed(const train::TrainingSpec& spec,
                              const std::vector<train::Observer*>& observers = {}) {
  AgainOptions options;
  options.observers = observers;
  AttributionRequest request;
  request.steps = {1};
  request.micro_batch = 1;
  return attribute_run(spec, request, options).parts.at(0);
}

}  // namespace opbound::trace
