// A training run run again up to some of its steps, and those attributed.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "distributed/trace/attribution.hpp"
#include "distributed/trace/gradient_step.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound::trace {

/// One op otherwise than the policy has it. All rounding behind it is drawn anew, so that what
/// several swaps change does not add up to what they change together (bounds.md 12).
struct Swap {
  std::string part;  ///< "matmul", "head", "mlp", "mlp:gelu": as a policy's table names it
  std::string how;   ///< a precision, or a provider
};

/// "gelu=fp32", "head=torch", "gelu": in fp64. Throws InputError for no such op.
Swap read_swap(const std::string& text);

struct SwapResult {
  Swap swap;
  std::int64_t step = 0, micro_batch = 0;
  double loss = 0;             ///< with the swap
  double change = 0;           ///< loss - the run's
  double gradient_change = 0;  ///< |G_swapped - G'| / |G'| over all parameters
};

struct AttributionRequest {
  std::set<std::int64_t> steps;             ///< from 0; not empty
  std::optional<std::int64_t> micro_batch;  ///< none: every one of the step
  bool with_replay = true;
  std::vector<Swap> swaps;
  /// Of host memory, beside what the run itself takes; more is refused before the first step.
  std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();
};

struct AgainOptions {
  std::string device = "cpu";
  /// A folder: the run goes on from its last one before the first step that is asked for.
  std::filesystem::path checkpoint;
  std::filesystem::path weights;  ///< the run's first ones; empty: random ones
  train::MakeProvider make_provider;
  std::vector<train::Observer*> observers;  ///< told before the capture: what plants faults
  std::string log;          ///< where the next two were read, for messages; empty: no log
  std::string data_sha256;  ///< of the run's text
  std::vector<train::StepResult> logged;  ///< their losses have to come again, bit for bit
  std::function<void(const train::StepResult&)> on_step;
  std::function<void(const std::string&)> on_note;  ///< one line
};

struct AttributedRun {
  train::RunFacts facts;
  std::vector<Attribution> parts;       ///< by step, then by micro-batch
  std::vector<StepGradient> gradients;  ///< of steps of which every micro-batch has gradients
  std::vector<SwapResult> swaps;
};

/// Memory of this machine in bytes.
std::int64_t machine_bytes();

/// Throws InputError: a step or micro-batch that the run does not have, too little memory, a text
/// or a loss that is not the log's, a checkpoint behind the first step that is asked for.
AttributedRun attribute_run(const train::TrainingSpec& spec, const AttributionRequest& request,
                            const AgainOptions& options);

}  // namespace opbound::trace
