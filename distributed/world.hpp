// Ranks simulated in one process from one seed: messages that take their time, overtake one
// another and are lost, ranks that start late or die, streams that nobody waits for.
//
// Time is counted, not taken: the same seed gives the same run on every machine. A rank does what
// program.hpp says, as a rank of MPI does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/engine.hpp"

namespace opbound {

/// What a message carries on its way, for faults that are planted.
struct Letter {
  std::int32_t from, to, round;
  std::vector<double> payload;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  std::int64_t most_delay = 1000;  ///< of a message, in ticks: uniform from 1 on
  std::int64_t most_skew = 1000;   ///< of a rank's start
  double lost = 0;                 ///< share of messages that do not arrive
  bool resends = true;             ///< a lost message is sent again
  std::int32_t dead_rank = -1;     ///< stops before its round `dead_round`
  std::int32_t dead_round = 0;
  std::vector<TensorRange> tensors{};   ///< of the message; none: it is one tensor
  std::vector<std::string> unwaited{};  ///< tensors that are read without waiting for their stream
  std::int64_t compute_delay = 0;       ///< injected: how late streams write them, at most
  std::function<void(Letter&)> tamper{};  ///< for faults that are planted
};

/// What a run took.
struct WorldCount {
  std::int64_t messages = 0, resent = 0, elements = 0;
  std::int64_t first_start = 0, last_start = 0;  ///< ticks
  std::int64_t first_end = 0, last_end = 0;
};

class World final : public Engine {
 public:
  explicit World(std::int32_t ranks, WorldOptions options = {});

  std::string name() const override { return "world"; }
  std::string version() const override;
  std::vector<std::pair<std::string, std::string>> environment() const override;
  std::int32_t ranks() const override { return ranks_; }
  void run(const Schedule& schedule, const Reducer& reducer, Buffers& buffers) override;
  std::vector<std::byte> gather(std::span<const std::byte> all) override {
    return {all.begin(), all.end()};
  }

  void set_weather(std::uint64_t weather) override { options_.seed = first_seed_ + weather; }
  bool delay_streams(const std::vector<TensorRange>& tensors) override;

  std::string timing() const override;

  const WorldCount& count() const { return count_; }

 private:
  std::int32_t ranks_;
  WorldOptions options_;
  std::uint64_t first_seed_;
  WorldCount count_;
};

}  // namespace opbound
