// Something that runs collectives: a simulated world, or the ranks of MPI or NCCL.
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

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual std::string name() const = 0;
  virtual std::string version() const = 0;
  virtual std::vector<std::pair<std::string, std::string>> environment() const = 0;

  virtual std::string device() const { return "cpu"; }
  /// What else its contract names, to stand behind it: ", NCCL_ALGO=Ring".
  virtual std::string settings() const { return {}; }

  virtual std::int32_t ranks() const = 0;
  /// Ranks [first, first + local) live in this process.
  virtual std::int32_t first_rank() const { return 0; }
  virtual std::int32_t local_ranks() const { return ranks(); }

  /// Is the order of additions the schedule's? Else a library chooses it.
  virtual bool keeps_order() const { return true; }
  /// Does it divide by itself, where a mean divides before? Then it is given what is not divided.
  virtual bool averages() const { return false; }
  /// A stored x as this engine is given it.
  double own_term(const Reducer& reducer, double x) const {
    return reducer.kept(averages() ? round_to(reducer.compute, x) : reducer.term(x));
  }

  /// Every local rank's elements in, results out; every process calls it. Ranks from
  /// schedule.ranks on, where that is less than all, take no part.
  ///
  /// Throws ProviderFailure where it does not come to an end: a simulated world at once, saying who
  /// waits for whom; mpi, tcp and nccl where nothing comes for as long as they were told to wait.
  /// mpi_library waits as long as MPI does: a collective of MPI's own cannot be given up.
  virtual void run(const Schedule& schedule, const Reducer& reducer, Buffers& buffers) = 0;

  /// Other delays and another order of arrival for the next runs, where the engine makes them.
  virtual void set_weather(std::uint64_t) {}
  /// Injects delays into the streams that write these tensors; none: takes them back. False where
  /// there is no stream to delay.
  virtual bool delay_streams(const std::vector<TensorRange>&) { return false; }
  /// Messages begin so many elements behind an aligned address. False where they are always copied
  /// to where this engine wants them.
  virtual bool set_offset(std::int64_t) { return false; }

  /// A line of what the last run took: skew is time, not error. Empty where nobody counts.
  virtual std::string timing() const { return {}; }

  /// Bytes of every local rank, all of one size; gives those of all ranks in every process.
  virtual std::vector<std::byte> gather(std::span<const std::byte> of_local_ranks) = 0;
};

}  // namespace opbound
