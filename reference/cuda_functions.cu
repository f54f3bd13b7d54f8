#include "reference/cuda_functions.hpp"

#include <algorithm>

#include "bounds/tracked_double_double.hpp"
#include "ops/instantiate/device_counts.hpp"
#include "ops/team.hpp"
#include "reference/device_tally.hpp"
#include "reference/double_double_functions.hpp"

namespace opbound {
namespace {

constexpr std::int64_t slice = std::int64_t{1} << 26;

/// A number known to a part in 2^60 only, or to so much absolutely: where every fp32 result is
/// decided by less.
__device__ Exact about(double value, double radius) { return {value, 0, radius, {}}; }

__device__ Exact of_class(double value, Exact::Class kind) { return {value, 0, 0, kind}; }

/// Where the argument is no number, the result is none, or double-double cannot hold it; false
/// elsewhere. Far out a function is its limit to much less than the formats tell.
template <Function f>
__device__ bool is_special(double x, Exact& e) {
  using Class = Exact::Class;
  constexpr double infinity = detail::infinite;
  const Exact nan = of_class(x - x, Class::nan);
  bool found = true;
  if (x != x) {
    e = nan;
    e.high = x;
  } else if constexpr (f == Function::exp || f == Function::exp2 || f == Function::expm1) {
    constexpr double lowest = f == Function::expm1 ? -1 : 0;
    if (x == infinity)
      e = of_class(x, Class::plus_infinity);
    else if (x > 600)
      e = about(0x1p800, 0x1p799);
    else if (x < -600)
      e = about(lowest, 0x1p-500);
    else
      found = false;
  } else if constexpr (f == Function::log || f == Function::log1p || f == Function::rsqrt) {
    constexpr double end = f == Function::log1p ? -1 : 0;
    constexpr bool falls = f == Function::rsqrt;
    if (x < end)
      e = of_class(x, Class::nan);
    else if (x == end)
      e = falls && std::bit_cast<std::uint64_t>(x) >> 63 == 0
              ? of_class(infinity, Class::plus_infinity)
              : of_class(-infinity, Class::minus_infinity);
    else if (x == infinity)
      e = falls ? about(0, 0) : of_class(x, Class::plus_infinity);
    else
      found = false;
  } else if constexpr (f == Function::tanh || f == Function::erf) {
    found = abs(x) > 40;
    if (found) e = about(x > 0 ? 1 : -1, 0x1p-100);
  } else {
    found = abs(x) > 24;
    if (found) e = x > 0 ? about(0, 0x1p-800) : about(2, 0x1p-100);
  }
  return found;
}

template <Function f>
__device__ CertifiedDouble exact_value(CertifiedDouble x) {
  if constexpr (f == Function::exp) return exp(x);
  if constexpr (f == Function::exp2) return exp2(x);
  if constexpr (f == Function::expm1) return expm1(x);
  if constexpr (f == Function::log) return log(x);
  if constexpr (f == Function::log1p) return log1p(x);
  if constexpr (f == Function::tanh) return tanh(x);
  if constexpr (f == Function::erf) return erf(x);
  if constexpr (f == Function::erfc) return erfc(x);
  if constexpr (f == Function::rsqrt) return rsqrt(x);
}

/// |got - RN(exact)| <= k ulp, so |got - exact| <= (k + 1/2) ulp(exact).
__device__ double documented_bound(const DocumentedError& d, const Format& f, double x,
                                   double exact) {
  if (d.absolute > 0 && d.low <= x && x <= d.high) return d.absolute;
  // nothing is said: no number is farther away, so that errors are told and nothing is claimed
  if (d.ulp < 0) return 0x1p60 * ulp(f, exact);
  return (d.ulp + floor(d.per_x * abs(x)) + 0.5) * ulp(f, exact);
}

template <Function f>
__device__ JudgedElement element_of(std::int64_t bits, float got, const Format& format,
                                    const DocumentedError& documented) {
  const double x = decode(format, static_cast<std::uint64_t>(bits)), value = got;
  JudgedElement e{value, value, 0, {}, detail::infinite};
  if (!is_special<f>(x, e.exact)) e.exact = exact_of(exact_value<f>(from<CertifiedDouble>(x)));
  e.radius = documented_bound(documented, format, x, e.exact.high);
  return e;
}

template <Function f>
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
      const JudgedElement e = element_of<f>(k, got[k - first], format, documented);
      Tally one;
      one.hash = element_hash(k, encode(format, e.got));
      judge.first(e, k, counts, one);
      return one;
    });
    if (threadIdx.x == 0) to.runs[r] = t;
  }
  counts.finish();
}

template <Function f>
__global__ void take_element(std::int64_t bits, const float* got, Format format,
                             DocumentedError documented, JudgedElement* to) {
  *to = element_of<f>(bits, *got, format, documented);
}

/// Calls run.template operator()<f>() for those that a table row may compute.
template <int k = 0, class F>
void with_function(Function f, F run) {
  constexpr auto here = static_cast<Function>(k);
  if constexpr (here == Function::pow) {
    detail::require(false, "not a function of the table");
  } else if constexpr (here == Function::sin || here == Function::cos) {
    with_function<k + 1>(f, run);  // double-double has them up to 2^20 only
  } else {
    if (f == here)
      run.template operator()<here>();
    else
      with_function<k + 1>(f, run);
  }
}

JudgedElement worst_element(const CudaFunctionInfo& f, std::int64_t bits) {
  const cuda::Memory got = cuda::memory_for<float>(1);
  const cuda::Memory element = cuda::memory_for<JudgedElement>(1);
  start_cuda_function(f.function, static_cast<std::uint64_t>(bits), 1, got.as<float>());
  with_function(f.computes, [&]<Function here>() {
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
  cuda::DeviceTally found(count, sweep_open_room);
  FirstRung o{};
  // the bound is of the result itself, so no further rounding is asked for
  o.judge = {{f.format, false}, false, fp64_doubt_ulp};
  for (std::int64_t first = 0; first < count; first += slice) {
    const std::int64_t here = std::min(slice, count - first);
    start_cuda_function(f.function, static_cast<std::uint64_t>(first), here, got.as<float>());
    const std::int64_t first_run = first / run_length, runs = runs_of(here);
    with_function(f.computes, [&]<Function computed>() {
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
