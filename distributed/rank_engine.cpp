#include "distributed/rank_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

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

/// Machines' clocks are not compared: who came first waited longest.
std::string RankEngine::timing() {
  const std::vector<std::byte> bytes = gather(std::as_bytes(std::span(&last_ms_, 1)));
  std::vector<double> all(bytes.size() / sizeof(double));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const auto [least, most] = std::ranges::minmax(all);
  return fmt::format(
      "the last run: {:.3f} ms on the rank that came last, {:.3f} ms on the one that waited "
      "longest\n",
      least, most);
}

}  // namespace opbound
