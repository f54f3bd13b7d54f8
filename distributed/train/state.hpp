// Inside a trainer: what one rank holds, and how it is put together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/collectives.hpp"
#include "distributed/train/checkpoint.hpp"
#include "distributed/train/data.hpp"
#include "distributed/train/forward.hpp"
#include "distributed/train/gradient_sum.hpp"
#include "distributed/train/observer.hpp"
#include "distributed/train/optimizer.hpp"
#include "distributed/train/program.hpp"
#include "distributed/train/scaler.hpp"
#include "distributed/train/trainer.hpp"
#include "distributed/train/weight_store.hpp"

namespace opbound::train {

/// Arrays that last: what this rank owns, range after range.
struct Arrays {
  std::vector<Range> owned;
  std::int64_t count = 0;
  std::byte *master = nullptr, *m = nullptr, *v = nullptr;
};

struct Trainer::State {
  State(const TrainingSpec& s, const TrainOptions& options);
  /// Ranks may read one another's memory until they are gone, so they go first.
  ~State() { ranks.reset(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  TrainingSpec spec;
  std::unique_ptr<Collectives> ranks;
  std::unique_ptr<Machine> machine;
  ProviderTable providers;
  Layout layout;
  Text text;
  Sampler sampler;
  ForwardRefs refs;  // before the tape, whose recording gives them
  Ref upstream;      ///< the loss's gradient: the loss scale
  Tape tape;
  Arrays arrays;
  GradientSum sum;
  OptimizerStep optimizer;
  WeightStore weights;
  LossScaler scaler;
  std::unique_ptr<Program> program;
  RunFacts facts;
  std::vector<Observer*> observers;
  bool has_begun = false;

  std::byte* inputs = nullptr;  ///< the loss scale, the loss; then tokens, targets, positions
  std::byte *tokens = nullptr, *targets = nullptr;
  std::unique_ptr<CheckpointFolder> checkpoints;  ///< once one was written there
  std::filesystem::path checkpoint_folder;
  std::int64_t step = 0;     ///< done
  std::int64_t updates = 0;  ///< of them, those that changed the weights

  std::int64_t rows() const { return spec.sequences * spec.model.context; }
  Element loss_element() const { return tape.value_of(refs.loss).element; }
  /// Tells the observers that the first step comes, once.
  void begin();
  RunView view();
  /// Starts a micro-batch's calls; its gradients go to this flat array.
  void start(std::int64_t micro_batch, std::byte* gradients);
  /// Starts the update that follows the gradient's sum.
  void start_update(double lr);
  double read_loss();
  void write_upstream();
  /// Over all ranks' micro-batches.
  double mean_loss(const std::vector<double>& own);
  /// An array of what is owned from every rank, in the order of parameters_of.
  std::vector<Tensor> gathered(const std::byte* array, Element e);
  void scatter(const std::vector<Tensor>& whole, std::byte* array);
  /// All but the weights.
  void record(StepTensors& to);
  /// The first parameter whose gradient is not finite, for a message.
  std::string first_nonfinite();
};

/// The text's file: that of the project where the name is "auto".
std::filesystem::path text_file(const std::string& name);

/// "cuda" is 0, "cuda:2" is 2. Throws InputError for anything else.
int device_number(const std::string& device);

}  // namespace opbound::train
