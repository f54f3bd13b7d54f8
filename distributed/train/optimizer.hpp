// What follows the gradients: their norm, the loss scale taken off, clipping and AdamW. All of it
// calls of ops, over one flat array of parameters.
//
//   norm = |g| / scale,  u = g / scale,  c = u min(1, clip / (norm + eps)),  w, m, v by AdamW
//
// A step whose norm is not finite changes nothing: AdamW is told so on the machine, before the host
// knows. Ranks that own a part of the parameters update that part; the norm is made of the norms of
// chunks (layout.hpp), so its bits do not hang on who owns what where the policy is reproducible.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "distributed/collectives.hpp"
#include "distributed/train/layout.hpp"
#include "distributed/train/program.hpp"
#include "distributed/train/training_spec.hpp"

namespace opbound::train {

/// The norm of a chunk is that of its shards' norms.
inline constexpr std::int64_t shards_of_a_norm = 64;

/// Flat arrays of what a rank owns, range after range, in the machine's memory.
struct FlatArrays {
  std::byte* master = nullptr;  ///< w, as m and v in the policy's master format
  std::byte* m = nullptr;
  std::byte* v = nullptr;
  std::byte* gradient = nullptr;  ///< the mean over micro-batches, times the loss scale
};

struct UpdateResult {
  double norm = 0;  ///< of the gradient without the loss scale
  bool is_skipped = false;
};

class OptimizerStep {
 public:
  /// `owned`: what this rank of so many updates, ascending: chunks of units, or all of the array.
  /// The arguments have to outlive it.
  OptimizerStep(const TrainingSpec& spec, const Layout& layout, const std::vector<Range>& owned,
                std::int64_t ranks, Machine& machine);
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;

  /// Binds the arrays; once, before the first run.
  void bind(const FlatArrays& arrays, ProviderTable& providers);
  /// Is told of the norms of chunks when they are there: their place, number and format.
  using Normed = std::function<void(std::byte* norms, std::int64_t count, Element element)>;
  /// What looks on; nothing need be given.
  struct Watch {
    CallWatch *norm = nullptr, *update = nullptr;
    Normed normed{};
  };

  /// Starts update number `update`, from 1. The ranks gather their norms where each owns a part.
  void run(double lr, std::int64_t update, double loss_scale, Collectives& ranks,
           const Watch& watch);
  /// Waits for it.
  UpdateResult result();

  std::int64_t arena_bytes() const;

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace opbound::train
