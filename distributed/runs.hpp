// A case's collective, run by an engine: its elements in, every rank's results out.
#pragma once

#include <functional>
#include <vector>

#include "distributed/collective_spec.hpp"
#include "distributed/engine.hpp"
#include "ops/tensor.hpp"

namespace opbound {

/// Every process makes the same calls. Results are as they are stored, of all ranks in every
/// process. Throws as the engine does.
class CollectiveRuns {
 public:
  /// `x`: every rank's elements. What is given here has to live longer.
  CollectiveRuns(const CollectiveSpec& collective, Engine& engine, const Tensor& x);

  /// A rank's elements [first, first + count), as they are stored.
  std::vector<double> given(std::int64_t rank, std::int64_t first, std::int64_t count) const;

  /// action(rank, elements) for the elements [first, first + count) of every rank here.
  Buffers of_local_ranks(
      std::int64_t first, std::int64_t count,
      const std::function<void(std::int32_t, std::vector<double>&)>& action) const;

  /// What all ranks have, rounded to the output's format.
  Buffers gathered(Buffers buffers);

  /// The whole message, reduced or moved.
  Buffers whole(const Circumstances& circumstances = {});

  /// Elements [first, first + count) reduced; of a scatter, every rank's shards put together.
  Buffers reduced(const Reducer& reducer, std::int64_t first, std::int64_t count,
                  const Circumstances& circumstances = {});

 private:
  /// Rank 0's elements, told to all: whole by rank 0, or each rank's shard by that rank.
  Buffers moved(const Circumstances& circumstances);

  const CollectiveSpec& c_;
  Engine& engine_;
  const Tensor& x_;
  Schedule schedule_;
  Reducer reducer_;
  std::int64_t n_;
};

}  // namespace opbound
