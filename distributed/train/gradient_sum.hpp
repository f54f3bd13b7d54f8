// The sum of a step's gradients over micro-batches and ranks: on every rank, or the part that each
// owns.
//
// reproducible_sum: one balanced tree over all micro-batches (distributed/reproducible.hpp), every
// node stored in the gradient's format, so that the bits do not hang on the number of ranks. Else a
// rank adds its micro-batches in turn, in the gradient's format, and the ranks add in whatever
// order is fastest, in the reduction's format.
#pragma once

#include <memory>
#include <vector>

#include "distributed/collectives.hpp"
#include "distributed/train/layout.hpp"
#include "distributed/train/machine.hpp"
#include "distributed/train/training_spec.hpp"

namespace opbound::train {

/// The micro-batches of a step that a rank of so many adds: those of the balanced tree where the
/// policy's sum is reproducible, else equal numbers of them, one more or less.
Share micro_batches_of(const TrainingSpec& spec, std::int32_t ranks, std::int32_t rank);

class GradientSum {
 public:
  /// Where the spec's sharding says so, this rank keeps its part of every unit, not the whole. The
  /// machine's memory has to last until the ranks are gone. Throws InputError where the ranks
  /// cannot have the policy's sum.
  GradientSum(const TrainingSpec& spec, const Layout& layout, Collectives& ranks, Machine& machine,
              const Provider& casts);

  /// The micro-batches of a step that are this rank's: [first, first + count).
  const Share& share() const { return share_; }

  // Of a step: begin; next and take for each micro-batch of the share; finish.
  void begin();
  /// A flat array in the policy's gradient format for the next micro-batch's gradient, of zeros
  /// between the parameters.
  std::byte* next() const;
  void take();
  /// Starts what is left to be added; the machine's later calls find the mean in `mean`. Throws
  /// ProviderFailure where the ranks do.
  void finish();
  /// Of all parameters, or range after range of what is owned.
  std::byte* mean() const { return mean_; }
  /// The array that `next` gives first.
  std::byte* first() const { return slots_.front(); }

 private:
  void finish_in_turn();
  Reducer reducer(const Format& wire) const;

  const TrainingSpec& spec_;
  const Layout& layout_;
  Collectives& ranks_;
  Machine& machine_;
  const Provider& casts_;
  bool is_sharded_;
  Element element_;
  Share share_;
  std::vector<std::byte*> slots_;
  std::vector<MicroBatchSum> trees_;  ///< one for each piece that is reduced by itself
  std::vector<Range> pieces_;         ///< units, or the whole array
  std::byte* wire_ = nullptr;         ///< where the reduction's format is another one
  std::byte* mean_ = nullptr;
  std::int64_t taken_ = 0;
};

}  // namespace opbound::train
