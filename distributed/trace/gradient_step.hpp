// A step's gradient against the fp64 one: the mean over its micro-batches, and what its sum adds.
#pragma once

#include <optional>
#include <vector>

#include "distributed/trace/attribution.hpp"

namespace opbound::trace {

/// The step's mean gradient before the update, as the optimizer gets it, against that of the same
/// calls in fp64 from the same master weights. `largest` of a parameter: the micro-batches' mean,
/// and the error of their sum.
struct StepGradient {
  std::int64_t step = 0, micro_batches = 0;
  GradientDeviation deviation;
  std::vector<double> of_sum;  ///< by parameter: |error of the sum over micro-batches| / |G|
};

/// Takes a step's micro-batches one after the other.
class StepGradientSum {
 public:
  /// One that has no gradients makes the step have none.
  void take(const Attribution& a, const GradientVectors& v);
  /// The step's mean gradient of the run, by parameter, times the loss scale. Nothing where a
  /// micro-batch of the `micro_batches` was left out, or is not finite. Begins anew.
  std::optional<StepGradient> finish(const train::Layout& layout, const std::vector<Tensor>& mean,
                                     std::int64_t micro_batches);

 private:
  GradientVectors sum_;
  std::int64_t step_ = 0, taken_ = 0;
};

}  // namespace opbound::trace
