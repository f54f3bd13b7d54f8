// Training runs for experiments: what varies is a line of words, and each run is made once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "distributed/claims/experiment.hpp"
#include "distributed/train/observer.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound::claims {

/// A variation of suites/training/nano.toml: a policy's name, then any of `key=value`:
/// dropout checkpointing stored_input sharding gather warmup lr seed loss_scale scale micro_batches
/// sequences gradient ranks, and of a planted fault `fault` (planted_fault.hpp) and `from`, its
/// first step.
struct Variation {
  train::TrainingSpec spec;
  std::string fault;
  std::int64_t fault_from = 0;
  std::int32_t ranks = 1;  ///< threads of this process
};
/// Throws InputError for a word that is none of these.
Variation variation_of(const std::string& text, std::int64_t steps);

/// What is kept of a run.
struct Trajectory {
  std::vector<train::ParameterSpec> parameters;
  std::vector<train::StepResult> steps;
  std::vector<std::vector<double>> gradient_norms;  ///< by step, by parameter, without loss scale
  std::vector<std::vector<double>> weight_norms;    ///< the same, before the step
  std::vector<Tensor> first, weights;               ///< before the first step, after the last one
  std::uint64_t hash = 0;
  std::int64_t allocated_bytes = 0, arena_bytes = 0;
  std::string failure;  ///< why it ended before its last step

  std::size_t parameter_named(const std::string& name) const;
};

/// The run of this variation, made when it is first asked for. Throws Unavailable where the
/// laboratory's device is not here.
const Trajectory& trajectory(Laboratory& laboratory, const std::string& variation,
                             std::int64_t steps);

/// Trains so, telling after each step; no trace of it is kept.
void train_steps(Laboratory& laboratory, const Variation& variation,
                 const std::function<void(train::Trainer&)>& begin,
                 const std::function<void(train::Trainer&, const train::StepTensors&)>& after);

/// All weights in one row.
std::vector<double> flat(const std::vector<Tensor>& tensors);

double norm_of(const std::vector<double>& x);
double norm_of(const Tensor& t);
double mean_of(const std::vector<double>& x);
/// Standard deviation; 0 of fewer than two.
double deviation_of(const std::vector<double>& x);
/// <a, b> / (|a| |b|).
double cosine_of(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace opbound::claims
