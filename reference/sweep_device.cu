#include "reference/sweep_device.hpp"

#include <algorithm>

#include "reference/device_tally.hpp"

namespace opbound {
namespace {

// between two signs of progress
constexpr std::int64_t slice_runs = (std::int64_t{1} << 28) / sweep_run_length;

}  // namespace

FirstRung sweep_on_device(const Op& op, const Sweep& sweep, int output, std::int64_t count,
                          const SweepProgress& progress) {
  const std::int64_t runs = runs_of(count, sweep_run_length);
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
