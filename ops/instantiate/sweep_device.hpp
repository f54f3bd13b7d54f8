// The loop over a sweep's elements on the device.
#pragma once

#include <algorithm>

#include "ops/cuda.hpp"
#include "ops/instantiate/sweep.hpp"

namespace opbound {
namespace detail {

template <class Elements>
__global__ void __launch_bounds__(team_width, 8)
    device_sweep(const __grid_constant__ Elements elements, std::int64_t count, std::int64_t first,
                 std::int64_t last, SweepResult to) {
  using Counter = unsigned long long;  // what atomicAdd takes
  static_assert(sizeof(Counter) == sizeof(std::uint64_t));
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Tally)];
  __shared__ unsigned histogram[UlpHistogram::most_entries];  // 64 bits would be a loop each
  const DeviceTeam<team_width, sizeof(Tally)> team(lanes);
  for (std::size_t k = threadIdx.x; k < UlpHistogram::most_entries; k += team_width)
    histogram[k] = 0;
  __syncthreads();
  for (std::int64_t r = first + blockIdx.x; r < last; r += gridDim.x) {
    const Tally t = sweep_run(
        team, elements, r, count,
        [&](double error) { atomicAdd(&histogram[UlpHistogram::entry_of(error)], 1U); },
        [&](std::int64_t k) {
          const Counter place = atomicAdd(reinterpret_cast<Counter*>(to.open_count), Counter{1});
          if (place < to.open_room) to.open[place] = k;
        });
    if (threadIdx.x == 0) to.runs[r - first] = t;
  }
  __syncthreads();
  for (std::size_t k = threadIdx.x; k < UlpHistogram::most_entries; k += team_width)
    if (histogram[k] != 0)
      atomicAdd(reinterpret_cast<Counter*>(&to.histogram[k]), Counter{histogram[k]});
}

}  // namespace detail

template <class Op>
struct DeviceSweepOf {
  /// As SweepOf::run; started, not waited for.
  static bool run(const Sweep& sweep, int output, std::int64_t count, std::int64_t first,
                  std::int64_t last, const SweepResult& to) {
    return detail::with_swept_elements<Op>(sweep, output, [&](const auto& elements) {
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(last - first, 1 << 16));
      if (blocks == 0) return;
      detail::device_sweep<<<blocks, team_width>>>(elements, count, first, last, to);
      OPBOUND_CUDA_CHECK(cudaGetLastError());
    });
  }
};

}  // namespace opbound
