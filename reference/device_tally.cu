#include "reference/device_tally.hpp"

#include <vector>

#include "ops/team.hpp"

namespace opbound::cuda {
namespace {

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

Tally merged(Memory tallies, std::int64_t count) {
  std::vector<Memory> levels;
  levels.push_back(std::move(tallies));
  while (count > 1) {
    const std::int64_t runs = runs_of(count);
    const Tally* from = levels.back().as<Tally>();
    levels.push_back(memory_for<Tally>(runs));
    merge_tallies<<<grid_of(runs), team_width>>>(from, count, levels.back().as<Tally>());
    OPBOUND_CUDA_CHECK(cudaGetLastError());
    count = runs;
  }
  Tally total;
  if (count == 1)
    OPBOUND_CUDA_CHECK(
        cudaMemcpy(&total, levels.back().data(), sizeof total, cudaMemcpyDeviceToHost));
  return total;
}

}  // namespace opbound::cuda
