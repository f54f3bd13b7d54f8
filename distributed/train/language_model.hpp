// A trained model that is asked and not trained: the forward pass of one training run's spec, with
// its policy's formats and algorithms, on one machine.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "distributed/train/evaluate.hpp"
#include "distributed/train/program.hpp"
#include "distributed/train/training_spec.hpp"
#include "ops/tensor.hpp"

namespace opbound::train {

/// A model to evaluate. `weights` by name, as read_weights gives them; each is rounded to what its
/// op stores, once. Without dropout. `device`: cpu, cuda or cuda:N. `batch`: sequences of a call.
/// Throws InputError, Unavailable or ProviderFailure, the last two from its calls too.
EvaluatedModel language_model(std::string name, const TrainingSpec& spec,
                              const std::map<std::string, Tensor>& weights,
                              const std::string& device = "cpu", std::int64_t batch = 2,
                              MakeProvider make_provider = {});

}  // namespace opbound::train
