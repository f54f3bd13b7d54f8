// What looks on while a run trains: traces, audits, sentinels; and what plants a fault in it.
//
// Every rank has its own observers, and tells them the same events in the same order:
//
//   begin
//   each step:  begin_step
//                 each micro-batch of the rank:  sample, then its calls, then gradient
//               reduced, the calls of the norm, normed, the calls of the update, updated
//               between_steps
//
// Of several observers the one that was given first is told first, so that what plants a fault
// stands before what shall find it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "distributed/collectives.hpp"
#include "distributed/train/data.hpp"
#include "distributed/train/forward.hpp"
#include "distributed/train/layout.hpp"
#include "distributed/train/optimizer.hpp"
#include "distributed/train/program.hpp"
#include "distributed/train/training_spec.hpp"

namespace opbound::train {

struct StepResult;

/// What a run is made of on this rank; it lasts as long as the run.
struct RunView {
  const TrainingSpec& spec;
  const Layout& layout;
  const Tape& tape;
  const ForwardRefs& refs;
  const Sampler& sampler;
  Machine& machine;
  Collectives& ranks;
  const ProviderTable& providers;
  std::vector<Range> owned;  ///< of the flat array, ascending: what `arrays` holds
  FlatArrays arrays;         ///< gradient: the mean, complete when `reduced` is told

  bool is_whole() const { return owned.size() == 1 && owned.front().count() == layout.count(); }
};

/// What a micro-batch computes with: which one's tokens, and the key of its random numbers.
struct Sample {
  std::int64_t step = 0, micro_batch = 0;  ///< from 0; the micro-batch in the order of all ranks
  std::uint64_t random_key = 0;
};

/// Which tape a call stands on.
enum class Phase : std::uint8_t { model, norm, update };

struct CallPlace {
  std::int64_t step = 0;
  std::int64_t micro_batch = -1;  ///< -1: of the step
  Phase phase = Phase::model;
  std::size_t index = 0;  ///< in the order of the tape's calls
};

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// Weights are there; those that are changed in `run.arrays.master` hold from now on.
  virtual void begin(const RunView& /*run*/) {}
  virtual void begin_step(std::int64_t /*step*/) {}
  /// What is changed here is what the micro-batch computes with.
  virtual void sample(std::int64_t /*step*/, std::int64_t /*micro_batch*/, Sample& /*sample*/) {}

  /// Shall this observer be told of calls? Asked before each micro-batch, and with micro-batch -1
  /// before the norm and the update.
  virtual bool sees_calls(std::int64_t /*step*/, std::int64_t /*micro_batch*/) { return false; }
  /// The call as it shall be, before it is started. What the machine was told before may not be
  /// done yet: reading from the machine waits for it.
  virtual void before_call(const CallPlace& /*place*/, const Step& /*step*/, const Call& /*call*/) {
  }
  /// What is changed here is started, and no other observer is told: for planted faults.
  virtual void alter_call(const CallPlace& /*place*/, const Step& /*step*/, Call& /*call*/) {}
  virtual void after_call(const CallPlace& /*place*/, const Step& /*step*/, const Call& /*call*/) {}

  /// The micro-batch's gradient, flat, whole, in the policy's gradient format, before it is added.
  virtual void gradient(std::int64_t /*step*/, std::int64_t /*micro_batch*/, std::byte* /*flat*/) {}
  /// The step's mean gradient is complete, or started to be.
  virtual void reduced(std::int64_t /*step*/) {}
  /// The norms of chunks of the gradient, of all ranks, before the norm is made of them.
  virtual void normed(std::int64_t /*step*/, std::byte* /*norms*/, std::int64_t /*count*/,
                      Element /*element*/) {}
  /// The step is done.
  virtual void updated(const StepResult& /*result*/) {}
  /// All were told of `updated`. Weights that are changed in `run.arrays.master` are what the next
  /// step reads.
  virtual void between_steps(std::int64_t /*step*/) {}
  /// What was told has to be where it is kept: a checkpoint is written, or the run is over.
  virtual void settle() {}
};

}  // namespace opbound::train
