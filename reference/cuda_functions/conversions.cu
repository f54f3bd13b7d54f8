// CUDA's conversions, judged on the device.
#include <algorithm>

#include "ops/instantiate/device_counts.hpp"
#include "ops/team.hpp"
#include "reference/cuda_functions.hpp"
#include "reference/device_tally.hpp"

namespace opbound {
namespace {

constexpr std::int64_t slice = std::int64_t{1} << 26;

using Counter = detail::DeviceCounts::Counter;

__global__ void __launch_bounds__(team_width)
    judge_conversion(const std::uint32_t* got, std::int64_t first_run, std::int64_t runs,
                     std::int64_t count, conversion::Rule rule, TallyResult to,
                     Counter* first_wrong) {
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Tally)];
  __shared__ detail::DeviceCounts::Shared histogram;
  const DeviceTeam<team_width, sizeof(Tally)> team(lanes);
  const detail::DeviceCounts counts(histogram, to);
  const std::int64_t first = first_run * run_length;
  for (std::int64_t r = blockIdx.x; r < runs; r += gridDim.x) {
    const Tally t = tally_run(team, first_run + r, count, [&](std::int64_t k) {
      const std::uint32_t bits = got[k - first];
      const Judgement j = conversion::judged(rule, conversion::input_of(rule, k), bits);
      Tally one;
      one.hash = element_hash(k, encode(rule.to, decode(rule.to, bits)));
      if (one.take(j, k, 0)) counts.decided(fabs(j.error_ulp));
      if (j.verdict != Verdict::within) atomicMin(first_wrong, static_cast<Counter>(k));
      return one;
    });
    if (threadIdx.x == 0) to.runs[r] = t;
  }
  counts.finish();
}

/// What has to come out is exact, so a record shows it in the place of an exact value.
JudgedElement shown_element(const CudaConversionInfo& c, std::int64_t index) {
  const cuda::Memory got = cuda::memory_for<std::uint32_t>(1);
  start_cuda_conversion(c.conversion, c.rule, index, 1, got.as<std::uint32_t>());
  std::uint32_t bits = 0;
  got.copy_to_host(&bits);
  const double right = conversion::converted(c.rule, conversion::input_of(c.rule, index));
  return {decode(c.rule.to, bits), 0, 0, {right, 0, 0, {}}, 0};
}

}  // namespace

FirstRung sweep_cuda_conversion(const CudaConversionInfo& c, const SweepProgress& progress) {
  const std::int64_t count = conversion::inputs_of(c.rule);
  const cuda::Memory got = cuda::memory_for<std::uint32_t>(std::min(slice, count));
  cuda::Memory first_wrong = cuda::memory_for<Counter>(1);
  const auto none = static_cast<Counter>(count);
  first_wrong.copy_from_host(&none);
  cuda::DeviceTally found(runs_of(count), 1);  // nothing is open
  FirstRung o{};
  for (std::int64_t first = 0; first < count; first += slice) {
    const std::int64_t here = std::min(slice, count - first);
    start_cuda_conversion(c.conversion, c.rule, first, here, got.as<std::uint32_t>());
    const std::int64_t first_run = first / run_length, runs = runs_of(here);
    judge_conversion<<<cuda::grid_of(runs), team_width>>>(got.as<std::uint32_t>(), first_run, runs,
                                                          count, c.rule, found.from_run(first_run),
                                                          first_wrong.as<Counter>());
    OPBOUND_CUDA_CHECK(cudaGetLastError());
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    progress(static_cast<std::uint64_t>(here));
  }
  found.read(o);
  Counter wrong = none;
  first_wrong.copy_to_host(&wrong);
  if (wrong != none) o.tally.worst = static_cast<std::int64_t>(wrong);
  if (o.tally.worst >= 0) o.worst = shown_element(c, o.tally.worst);
  return o;
}

}  // namespace opbound
