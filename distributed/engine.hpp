// Something that runs collectives so that they can be checked: simulated ranks, or those of MPI,
// TCP or NCCL. What it is and where its ranks are is data; what it does are three functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "distributed/program.hpp"

namespace opbound {

/// Elements of every rank that is here, one vector for each.
using Buffers = std::vector<std::vector<double>>;

/// How long a rank waits for others that do not go on, where nothing else is asked for. It is
/// longer than rank 0 judges alone while they wait for it.
inline constexpr double default_patience = 600;  // seconds

/// A tensor in a message.
struct TensorRange {
  std::string name;
  Chunk range;
};

/// What an engine is, and what can be asked of it.
struct EngineTraits {
  std::string name, version;
  std::string device = "cpu";
  std::string settings{};  ///< what else its contract names, to stand behind it: ", NCCL_ALGO=Ring"
  std::vector<std::pair<std::string, std::string>> environment{};
  bool keeps_order = true;  ///< its order of additions is the schedule's; else a library chooses it
  bool averages = false;    ///< divides by itself where a mean divides before: is given what is not
  bool has_streams = false;    ///< that write tensors, and can be late
  bool has_addresses = false;  ///< a message can begin at another one; else it is always copied
};

/// Ranks [first, first + local) of all `ranks` live in this process.
struct Placement {
  std::int32_t ranks = 1, first = 0, local = 1;
};

/// What must change no bit that is promised.
struct Circumstances {
  std::uint64_t disturbance = 0;    ///< not 0: other delays, another order of arrival and, on GPUs,
                                    ///< streams of another priority
  std::vector<TensorRange> late{};  ///< the streams that write these tensors are delayed
  std::int64_t offset = 0;          ///< elements that messages begin behind an aligned address
};

class Engine {
 public:
  Engine(EngineTraits traits, Placement placement)
      : traits_(std::move(traits)), placement_(placement) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  const EngineTraits& traits() const { return traits_; }
  std::int32_t ranks() const { return placement_.ranks; }
  std::int32_t first_rank() const { return placement_.first; }
  std::int32_t local_ranks() const { return placement_.local; }

  /// A stored x as this engine is given it.
  double own_term(const Reducer& reducer, double x) const {
    return reducer.kept(traits_.averages ? round_to(reducer.compute, x) : reducer.term(x));
  }

  /// Every local rank's elements in, results out; every process calls it. Ranks from
  /// schedule.ranks on, where that is less than all, take no part. Circumstances that the traits
  /// know nothing of are left out.
  ///
  /// Throws ProviderFailure where it does not come to an end: simulated ranks at once, saying who
  /// waits for whom; mpi, tcp and nccl where nothing comes for as long as they were told to wait.
  /// mpi_library waits as long as MPI does: a collective of MPI's own cannot be given up. Throws
  /// Unavailable for what the engine cannot do.
  void run(const Schedule& schedule, const Reducer& reducer, Buffers& buffers,
           const Circumstances& circumstances = {}) {
    run_under(circumstances, schedule, reducer, buffers);
  }

  /// A line of what the last run took: skew is time, not error. Empty where nobody counts. Every
  /// process calls it.
  virtual std::string timing() { return {}; }

  /// Bytes of every local rank, all of one size; gives those of all ranks in every process.
  virtual std::vector<std::byte> gather(std::span<const std::byte> of_local_ranks) = 0;

 private:
  virtual void run_under(const Circumstances& circumstances, const Schedule& schedule,
                         const Reducer& reducer, Buffers& buffers) = 0;

  EngineTraits traits_;
  Placement placement_;
};

}  // namespace opbound
