// The loop over a sweep's elements on the device.
#pragma once

#include "ops/cuda.hpp"
#include "ops/instantiate/device_counts.hpp"
#include "ops/instantiate/sweep.hpp"

namespace opbound {
namespace detail {

template <class Elements>
__global__ void __launch_bounds__(team_width, 5)
    device_sweep(const __grid_constant__ Elements elements, std::int64_t count, std::int64_t first,
                 std::int64_t last, const __grid_constant__ TallyResult to) {
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Tally)];
  __shared__ DeviceCounts::Shared histogram;
  const DeviceTeam<team_width, sizeof(Tally)> team(lanes);
  const DeviceCounts counts(histogram, to);
  for (std::int64_t r = first + blockIdx.x; r < last; r += gridDim.x) {
    const Tally t = sweep_run(team, elements, r, count, counts);
    if (threadIdx.x == 0) to.runs[r - first] = t;
  }
  counts.finish();
}

}  // namespace detail

template <class Op>
struct DeviceSweepOf {
  /// As SweepOf::run; started, not waited for.
  static bool run(const Sweep& sweep, int output, std::int64_t count, std::int64_t first,
                  std::int64_t last, const TallyResult& to) {
    return detail::with_swept_elements<Op, true>(sweep, output, [&](const auto& elements) {
      if (first == last) return;
      detail::device_sweep<<<cuda::grid_of(last - first), team_width>>>(elements, count, first,
                                                                        last, to);
      OPBOUND_CUDA_CHECK(cudaGetLastError());
    });
  }
};

}  // namespace opbound
