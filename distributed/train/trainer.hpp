// The training loop: micro-batches through the model's tape, their gradients summed over the ranks,
// the update. The same calls on the host and on a device, on one rank and on many.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributed/collectives.hpp"
#include "distributed/train/program.hpp"
#include "distributed/train/training_spec.hpp"
#include "ops/tensor.hpp"

namespace opbound::train {

class CheckpointFolder;
class Observer;
class Trainer;

struct StepResult {
  std::int64_t step = 0;     ///< from 0
  double loss = 0;           ///< mean over the step's micro-batches, before the update
  double gradient_norm = 0;  ///< without the loss scale
  double loss_scale = 1;
  double lr = 0;
  bool is_skipped = false;  ///< a gradient was not finite: nothing was updated
  double time_ms = 0;
  std::int64_t tokens = 0;  ///< of the step, over all ranks
};

/// What identifies a run's circumstances, for its record.
struct RunFacts {
  std::string data_sha256, ranks, machine;
  std::vector<std::pair<std::string, std::string>> providers;  ///< name and version
  std::int64_t rank = 0, rank_count = 1, parameters = 0;
  std::int64_t first_step = 0;  ///< above 0: resumed
};

struct TrainOptions {
  std::string device = "cpu";                          ///< or cuda, cuda:N
  std::function<std::unique_ptr<Collectives>()> join;  ///< the ranks; none: those of the launcher
  std::filesystem::path checkpoint_folder;
  std::filesystem::path interrupt_folder;  ///< where a run that shall stop leaves one, if not there
  bool resume = false;
  std::filesystem::path weights;       ///< GPT-2's names; instead of initial ones
  std::filesystem::path save_weights;  ///< where the final ones go
  std::filesystem::path tensors;       ///< a folder for a file of each step's StepTensors
  MakeProvider make_provider;          ///< of what a policy names beside "own"
  std::vector<Observer*> observers;    ///< observer.hpp; they outlive the run
  std::function<void(const RunFacts&)> on_start;  ///< before the first step
  std::function<void(const StepResult&)> on_step;
  std::function<bool()> should_stop;
  /// Asked after each step, also one that failed, on every rank alike: whether it took the trainer
  /// back to an earlier step. What it throws ends the run.
  std::function<bool(Trainer&)> judge;
  std::function<void(std::int64_t steps_done)> on_back;  ///< the trainer was taken back
  std::function<void(const std::string&)> on_note;  ///< one line: a checkpoint that was refused
};

struct TrainResult {
  std::uint64_t hash = 0;  ///< of the master weights: the same on any number of ranks
  std::int64_t steps = 0;  ///< that are done, those before a resume too
  double first_loss = 0, last_loss = 0;
  std::int64_t allocated_bytes = 0;  ///< on this rank's machine
  std::int64_t arena_bytes = 0;      ///< of it for activations
  bool is_interrupted = false;
};

/// What a step computed with: for whoever wants to compute it again.
struct StepTensors {
  std::vector<Tensor> weights;   ///< before the step, in the order of parameters_of
  std::vector<Tensor> gradient;  ///< mean over micro-batches, times the loss scale
  Tensor tokens, targets;        ///< int64 [micro_batches, sequences, context]
};

/// Of tensors one after the other: the sum of their elements' hashes.
std::uint64_t hash_of(std::span<Tensor> weights);

/// One rank's training. Every rank makes the same calls.
class Trainer {
 public:
  /// All weights are 0 until they are set. Throws InputError, Unavailable or ProviderFailure.
  Trainer(const TrainingSpec& spec, const TrainOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const RunFacts& facts() const;
  /// Steps that are done.
  std::int64_t steps_done() const;
  /// One step. Throws ProviderFailure where a gradient is not finite and the optimizer shall say
  /// so.
  StepResult step(StepTensors* tensors = nullptr);

  /// Forward and backward of one micro-batch of the next step from the present weights: the loss,
  /// and the gradients by the parameters' names, times the loss scale. Nothing is updated.
  double gradients(std::int64_t micro_batch, std::vector<Tensor>& to);
  /// Master weights in the order of parameters_of.
  std::vector<Tensor> weights();
  void set_weights(const std::vector<Tensor>& weights);
  void set_initial_weights();
  /// Throws InputError unless every rank has the same spec, text, version, step and weights.
  void require_alike();
  /// Is it so on any rank?
  bool any(bool here);

  /// No other run writes checkpoints there while this trainer lives.
  void claim(const std::filesystem::path& folder);
  /// The whole state, and going on from it. Rank 0 writes.
  void save(const std::filesystem::path& folder);
  /// False where the folder holds no good checkpoint. Throws InputError for one of another run.
  bool resume(const std::filesystem::path& folder,
              const std::function<void(const std::string&)>& on_note);

  std::int64_t allocated_bytes() const;
  std::int64_t arena_bytes() const;

 private:
  struct State;

  void on_rank_0(const std::filesystem::path& folder,
                 const std::function<void(CheckpointFolder&)>& act);

  std::unique_ptr<State> state_;
};

/// Trains to the last step, or until it shall stop.
TrainResult train(const TrainingSpec& spec, const TrainOptions& options);

}  // namespace opbound::train
