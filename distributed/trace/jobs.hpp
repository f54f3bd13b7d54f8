// Training runs at the same time, told of in their order.
#pragma once

#include <functional>
#include <span>

namespace opbound::trace {

/// One of several pieces of work that know nothing of each other.
struct Job {
  std::function<void()> run;   ///< on any thread
  std::function<void()> tell;  ///< one at a time, after those of all jobs before; may be empty
};

/// `workers` of them at the same time, one core for each if there are several; they begin in their
/// order. What is told does not depend on the number of workers. When `should_stop` says so none
/// begins and none is told any more. Throws what the first job in their order threw, once those
/// that had begun have ended; jobs after it are not told.
void run_jobs(std::span<const Job> jobs, int workers, const std::function<bool()>& should_stop);

}  // namespace opbound::trace
