#include "reference/sweep_device.hpp"

#include <algorithm>

#include "reference/device_tally.hpp"

namespace opbound {
namespace {

constexpr std::int64_t slice_runs = 1 << 13;  // 2^28 elements between two signs of progress

}  // namespace

FirstRung sweep_on_device(const Op& op, const Sweep& sweep, int output, std::int64_t count,
                          const SweepProgress& progress) {
  const std::int64_t runs = sweep_runs_of(count);
  cuda::DeviceTally found(runs, sweep_open_room);
  for (std::int64_t first = 0; first < runs; first += slice_runs) {
    const std::int64_t last = std::min(runs, first + slice_runs);
    detail::require(op.sweep_on_device(sweep, output, count, first, last, found.from_run(first)),
                    "this output cannot be swept");
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    progress(static_cast<std::uint64_t>((last - first) * sweep_run_length));
  }
  FirstRung o{};
  o.tensor = output;
  found.read(o);
  return o;
}

}  // namespace opbound
