#include "reference/sweep_device.hpp"

#include <algorithm>

#include "reference/device_tally.hpp"

namespace opbound {
namespace {

constexpr std::int64_t slice_runs = 1 << 16;  // 2^28 elements between two signs of progress

}  // namespace

FirstRung sweep_on_device(const Op& op, const Sweep& sweep, int output, std::int64_t count,
                          const SweepProgress& progress) {
  constexpr std::size_t entries = UlpHistogram::most_entries;
  const std::int64_t runs = runs_of(count);
  cuda::Memory tallies = cuda::memory_for<Tally>(runs);
  cuda::Memory counters = cuda::memory_for<std::uint64_t>(entries + 1);
  const cuda::Memory open = cuda::memory_for<std::int64_t>(sweep_open_room);
  counters.clear();
  auto* const counts = counters.as<std::uint64_t>();
  for (std::int64_t first = 0; first < runs; first += slice_runs) {
    const std::int64_t last = std::min(runs, first + slice_runs);
    const SweepResult to{tallies.as<Tally>() + first, counts, open.as<std::int64_t>(),
                         counts + entries, sweep_open_room};
    detail::require(op.sweep_on_device(sweep, output, count, first, last, to),
                    "this output cannot be swept");
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    progress(static_cast<std::uint64_t>((last - first) * run_length));
  }
  FirstRung o{};
  o.tensor = output;
  o.tally = cuda::merged(std::move(tallies), runs);
  std::array<std::uint64_t, entries + 1> found{};
  counters.copy_to_host(found.data());
  std::copy_n(found.begin(), entries, o.histogram.begin());
  o.open.resize(std::min(found.back(), sweep_open_room));
  if (!o.open.empty())
    OPBOUND_CUDA_CHECK(cudaMemcpy(o.open.data(), open.data(), o.open.size() * sizeof(std::int64_t),
                                  cudaMemcpyDeviceToHost));
  std::sort(o.open.begin(), o.open.end());
  return o;
}

}  // namespace opbound
