#include "reference/cuda_functions.hpp"

#include <algorithm>

#include "ops/instantiate/device_counts.hpp"
#include "ops/team.hpp"
#include "reference/cuda_functions/judged.hpp"
#include "reference/device_tally.hpp"

namespace opbound {
namespace {

constexpr std::int64_t slice = std::int64_t{1} << 26;

template <Formula f>
__global__ void __launch_bounds__(team_width)
    judge_values(const float* got, std::int64_t first_run, std::int64_t runs, std::int64_t count,
                 Format format, DocumentedError documented, Judge judge, TallyResult to) {
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Tally)];
  __shared__ detail::DeviceCounts::Shared histogram;
  const DeviceTeam<team_width, sizeof(Tally)> team(lanes);
  const detail::DeviceCounts counts(histogram, to);
  const std::int64_t first = first_run * run_length;
  for (std::int64_t r = blockIdx.x; r < runs; r += gridDim.x) {
    const Tally t = tally_run(team, first_run + r, count, [&](std::int64_t k) {
      const JudgedElement e = cuda_function::element_of<f>(k, got[k - first], format, documented);
      Tally one;
      one.hash = element_hash(k, encode(format, e.got));
      judge.first(e, k, counts, one);
      return one;
    });
    if (threadIdx.x == 0) to.runs[r] = t;
  }
  counts.finish();
}

template <Formula f>
__global__ void take_element(std::int64_t bits, const float* got, Format format,
                             DocumentedError documented, JudgedElement* to) {
  *to = cuda_function::element_of<f>(bits, *got, format, documented);
}

/// Calls run.template operator()<f>().
template <int k = 0, class F>
void with_formula(Formula f, F run) {
  constexpr auto here = static_cast<Formula>(k);
  if (f == here)
    run.template operator()<here>();
  else if constexpr (here != Formula::reciprocal)
    with_formula<k + 1>(f, run);
}

CudaArgument argument_of(const Format& f) {
  return f.kind == Kind::fp16   ? CudaArgument::fp16
         : f.kind == Kind::bf16 ? CudaArgument::bf16
                                : CudaArgument::fp32;
}

JudgedElement worst_element(const CudaFunctionInfo& f, std::int64_t bits) {
  const cuda::Memory got = cuda::memory_for<float>(1);
  const cuda::Memory element = cuda::memory_for<JudgedElement>(1);
  start_cuda_function(f.function, argument_of(f.format), static_cast<std::uint64_t>(bits), 1,
                      got.as<float>());
  with_formula(f.computes, [&]<Formula here>() {
    take_element<here>
        <<<1, 1>>>(bits, got.as<float>(), f.format, f.error, element.as<JudgedElement>());
  });
  OPBOUND_CUDA_CHECK(cudaGetLastError());
  JudgedElement e{};
  element.copy_to_host(&e);
  return e;
}

}  // namespace

FirstRung sweep_cuda_function(const CudaFunctionInfo& f, const SweepProgress& progress) {
  const std::int64_t count = std::int64_t{1} << f.format.bits();
  const cuda::Memory got = cuda::memory_for<float>(std::min(slice, count));
  cuda::DeviceTally found(runs_of(count), sweep_open_room);
  FirstRung o{};
  // the bound is of the result itself, so no further rounding is asked for
  o.judge = {{f.format, false}, false, fp64_doubt_ulp};
  for (std::int64_t first = 0; first < count; first += slice) {
    const std::int64_t here = std::min(slice, count - first);
    start_cuda_function(f.function, argument_of(f.format), static_cast<std::uint64_t>(first), here,
                        got.as<float>());
    const std::int64_t first_run = first / run_length, runs = runs_of(here);
    with_formula(f.computes, [&]<Formula computed>() {
      judge_values<computed><<<cuda::grid_of(runs), team_width>>>(got.as<float>(), first_run, runs,
                                                                  count, f.format, f.error, o.judge,
                                                                  found.from_run(first_run));
    });
    OPBOUND_CUDA_CHECK(cudaGetLastError());
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    progress(static_cast<std::uint64_t>(here));
  }
  found.read(o);
  if (o.tally.worst >= 0) o.worst = worst_element(f, o.tally.worst);
  return o;
}

}  // namespace opbound
