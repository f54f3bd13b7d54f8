// Cases of a run at the same time: several workers, records in the order of the cases.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "suites/run.hpp"

namespace opbound {

/// As run_case, but throws OutOfMemory instead of saying so in a record: alone on its device, the
/// case may have enough.
std::vector<Record> run_case_or_throw(const CaseSpec& spec, const Provider& provider,
                                      Agreement agreement, std::int64_t most_probes);

/// What is asked of every case, as of run_case, and how many run at the same time.
struct RunOptions {
  Agreement agreement = Agreement::outputs;
  std::int64_t most_probes = 0;
  int workers = 1;
};

/// What hears of a run's cases, one call at a time. They are named by their place.
struct RunEvents {
  /// Before a case begins; false: no further one begins, those that have begun are finished.
  std::function<bool(std::size_t)> begins;
  /// In the order of the cases, as soon as all before it have ended.
  std::function<void(std::size_t, std::vector<Record>)> ended;
};

/// Runs our own kernels on so many threads, each of which has a stream and device memory of its
/// own; somebody else's one after the other. A case for which the device's memory does not suffice
/// runs again while no other does, so that no record depends on the number of workers, but for its
/// time. The first exception in the order of the cases is thrown again when all threads are done.
void run_cases(std::span<const CaseSpec> cases, const Provider& provider, const RunOptions& options,
               const RunEvents& events);

}  // namespace opbound
