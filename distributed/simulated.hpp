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

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::int64_t most_delay = 1000;  ///< of a message, in ticks: uniform from 1 on
  std::int64_t most_skew = 1000;   ///< of a rank's start
  double lost = 0;                 ///< share of messages that do not arrive
  bool resends = true;             ///< a lost message is sent again
  /// Stops before its round `dead_round`; a run that it does not come to that in is Unavailable.
  std::int32_t dead_rank = -1;
  std::int32_t dead_round = 0;
  std::vector<std::string> unwaited{};  ///< tensors that are read without waiting for their stream
  std::function<void(Letter&)> tamper{};  ///< for faults that are planted
};

/// What a run took.
struct SimulationCount {
  std::int64_t messages = 0, resent = 0, elements = 0;
  std::int64_t first_start = 0, last_start = 0;  ///< ticks
  std::int64_t first_end = 0, last_end = 0;
};

class SimulatedRanks final : public Engine {
 public:
  explicit SimulatedRanks(std::int32_t ranks, SimulationOptions options = {});

  std::string timing() override;
  std::vector<std::byte> gather(std::span<const std::byte> all) override {
    return {all.begin(), all.end()};
  }

  const SimulationCount& count() const { return count_; }

 private:
  void run_under(const Circumstances& circumstances, const Schedule& schedule,
                 const Reducer& reducer, Buffers& buffers) override;

  SimulationOptions options_;
  SimulationCount count_;
};

}  // namespace opbound
