// Tallies on the device, and their way back.
#pragma once

#include "bounds/tally.hpp"
#include "ops/cuda.hpp"
#include "reference/certify.hpp"

namespace opbound::cuda {

/// The tallies of one output's runs and what is counted beside them, in device memory.
class DeviceTally {
 public:
  /// Of `runs` runs, `open_room` of whose elements may be left open.
  DeviceTally(std::int64_t runs, std::uint64_t open_room);

  /// Where run `first` and those after it go.
  TallyResult from_run(std::int64_t first) const;

  /// The merged tally, level by level as on the host, the histogram, and the open elements, sorted.
  /// Waits for what was started.
  void read(FirstRung& to);

 private:
  Tally merged() const;

  std::int64_t runs_;
  std::uint64_t open_room_;
  Memory tallies_, counters_, open_;
};

}  // namespace opbound::cuda
