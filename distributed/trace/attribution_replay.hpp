// Inside attribution: every class of calls replayed by itself.
#pragma once

#include <vector>

#include "distributed/trace/attribution.hpp"
#include "distributed/trace/replay.hpp"

namespace opbound::trace {

/// The class of each call, and of each parameter's rounding: places in Attribution::classes.
struct ClassPlaces {
  const std::vector<std::size_t>&of_call, &of_parameter;
};

/// Counts what is not finite in the run's gradient; where `with_replay`, fills what replays tell of
/// the classes, `replay` and, where the gradient is finite, the vectors.
void replay_classes(const train::RunView& run, const Trajectories& t, const ClassPlaces& places,
                    bool with_replay, Attribution& a, GradientVectors& vectors);

}  // namespace opbound::trace
