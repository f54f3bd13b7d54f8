// Something that runs collectives: a simulated world, or the ranks of MPI or NCCL.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "distributed/program.hpp"

namespace opbound {

/// Elements of every rank that is here, one vector for each.
using Buffers = std::vector<std::vector<double>>;

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

  /// Every local rank's elements in, results out; every process calls it. Ranks from
  /// schedule.ranks on, where that is less than all, take no part. Throws ProviderFailure, which
  /// says who waits for whom, where it does not come to an end.
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
