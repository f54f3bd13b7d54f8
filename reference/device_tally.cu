#include "reference/device_tally.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "ops/team.hpp"

namespace opbound::cuda {
namespace {

constexpr std::size_t entries = UlpHistogram::most_entries;

__global__ void __launch_bounds__(team_width)
    merge_tallies(const Tally* tallies, std::int64_t count, Tally* merged) {
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Tally)];
  const DeviceTeam<team_width, sizeof(Tally)> team(lanes);
  for (std::int64_t r = blockIdx.x; r < runs_of(count); r += gridDim.x) {
    const Tally t = tally_run(team, r, count, [&](std::int64_t k) { return tallies[k]; });
    if (threadIdx.x == 0) merged[r] = t;
  }
}

}  // namespace

DeviceTally::DeviceTally(std::int64_t runs, std::uint64_t open_room)
    : runs_(runs),
      open_room_(open_room),
      tallies_(memory_for<Tally>(runs)),
      counters_(memory_for<std::uint64_t>(entries + 1)),
      open_(memory_for<std::int64_t>(static_cast<std::int64_t>(open_room))) {
  counters_.clear();
}

TallyResult DeviceTally::from_run(std::int64_t first) const {
  auto* const counts = counters_.as<std::uint64_t>();
  return {tallies_.as<Tally>() + first, counts, open_.as<std::int64_t>(), counts + entries,
          open_room_};
}

Tally DeviceTally::merged() const {
  std::vector<Memory> levels;
  const Tally* from = tallies_.as<Tally>();
  std::int64_t left = runs_;
  while (left > 1) {
    const std::int64_t runs = runs_of(left);
    Tally* const to = levels.emplace_back(memory_for<Tally>(runs)).as<Tally>();
    merge_tallies<<<grid_of(runs), team_width>>>(from, left, to);
    OPBOUND_CUDA_CHECK(cudaGetLastError());
    from = to;
    left = runs;
  }
  Tally total;
  if (left == 1) OPBOUND_CUDA_CHECK(cudaMemcpy(&total, from, sizeof total, cudaMemcpyDeviceToHost));
  return total;
}

void DeviceTally::read(FirstRung& to) {
  to.tally = merged();
  std::array<std::uint64_t, entries + 1> found{};
  counters_.copy_to_host(found.data());
  std::copy_n(found.begin(), entries, to.histogram.begin());
  to.open.resize(std::min(found.back(), open_room_));
  if (!to.open.empty())
    OPBOUND_CUDA_CHECK(cudaMemcpy(to.open.data(), open_.data(),
                                  to.open.size() * sizeof(std::int64_t), cudaMemcpyDeviceToHost));
  std::sort(to.open.begin(), to.open.end());
}

}  // namespace opbound::cuda
