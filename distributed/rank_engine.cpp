#include "distributed/rank_engine.hpp"

#include <chrono>

#include "distributed/skew.hpp"

namespace opbound {

void RankEngine::run_here(const Circumstances&, const Schedule& schedule, const Reducer& reducer,
                          std::vector<double>& own) {
  run_collective(*communicator_, schedule, reducer, own);
}

void RankEngine::run_under(const Circumstances& circumstances, const Schedule& schedule,
                           const Reducer& reducer, Buffers& buffers) {
  if (first_rank() >= schedule.ranks) return;
  const auto start = std::chrono::steady_clock::now();
  run_here(circumstances, schedule, reducer, buffers.front());
  last_ms_ =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string RankEngine::timing() { return skew_text(*this, {&last_ms_, 1}); }

}  // namespace opbound
