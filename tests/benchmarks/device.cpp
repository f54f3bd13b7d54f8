// Sweeps and large checks on the device, each beside its floor: what the fastest multiply-adds, or
// copies, of the same machine in the same run would take. `tools/benchmark` builds and runs it.
#include <benchmark/benchmark.h>

#include "suites/rerun.hpp"
#include "suites/run.hpp"
#include "suites/sweep.hpp"
#include "tests/benchmarks/floors.hpp"
#include "tests/benchmarks/product.hpp"
#include "tests/benchmarks/rows.hpp"

namespace opbound {
namespace {

const Provider& device() {
  static const std::unique_ptr<Provider> own = own_device_provider(0);
  own->select_device();
  return *own;
}

/// fma_slots_per_element: the fp64 multiply-adds that the device could have done in the same time.
void sweep(benchmark::State& state, const CaseSpec& spec) {
  const double floor = benchmarks::multiply_adds_per_second();
  const auto count = static_cast<double>(sweep_size(spec, 1));
  double open = 0, seconds = 0;
  for (auto _ : state) {
    const auto records = run_sweep(spec, device(), 1, [](std::uint64_t) {});
    seconds = 0;
    for (const Record& r : records) {
      seconds += r.time_ms.value_or(0) / 1e3 / static_cast<double>(records.size());
      open += static_cast<double>(r.rungs->dd + r.rungs->mpfr);
      if (r.verdict != Verdict::within && r.allowed_vacuous.empty())
        state.SkipWithError(std::string(name_of(r.verdict)).c_str());
    }
    state.SetIterationTime(seconds);
  }
  state.counters["elements_per_s"] = count / seconds;
  state.counters["fma_slots_per_element"] = floor * seconds / count;
  state.counters["open"] = open / static_cast<double>(state.iterations());
}

void product(benchmark::State& state) {
  const std::int64_t side = state.range(0);
  const double floor = benchmarks::multiply_adds_per_second();
  const double copies = benchmarks::copied_bytes_per_second();
  benchmarks::ProductTimes times;
  for (auto _ : state) {
    times = benchmarks::time_product(side);
    state.SetIterationTime(times.certify_s);
    if (times.exceeds + static_cast<std::uint64_t>(times.failing_rows) > 0)
      state.SkipWithError("exceeds");
  }
  const auto n = static_cast<double>(side);
  state.counters["kernel_ms"] = 1e3 * times.kernel_s;
  state.counters["quick_check_ms"] = 1e3 * times.quick_s;
  state.counters["quick_check_floor_ms"] = 1e3 * 3 * 2 * n * n / copies;  // each tensor read once
  state.counters["certify_floor_ms"] = 1e3 * 2 * n * n * n / floor;       // sum and magnitudes
  state.counters["open"] = static_cast<double>(times.open);
  state.counters["ratio"] = times.ratio;
}
BENCHMARK(product)->Arg(8192)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

/// copy_share: of the rate at which the device copies; rows.py times PyTorch's.
void rows(benchmark::State& state, const char* op) {
  const double copies = benchmarks::copied_bytes_per_second();
  benchmarks::RowTimes times{};
  for (auto _ : state) {
    times = benchmarks::time_rows(op, 8192, 4096);
    state.SetIterationTime(times.kernel_ms / 1e3);
  }
  state.counters["floor_ms"] = 1e3 * times.bytes / copies;
  state.counters["copy_share"] = 1e3 * times.bytes / copies / times.kernel_ms;
}
BENCHMARK_CAPTURE(rows, softmax, "softmax")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rows, layer_norm, "layer_norm")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rows, rms_norm, "rms_norm")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Registered before main, which Google Benchmark has.
const bool registered = [] {
  for (const Op& op : all_ops())  // from the repository's root
    for (const CaseSpec& spec :
         sweeps_of(read_suite("suites/" + std::string(op.name) + ".toml").cases))
      benchmark::RegisterBenchmark(
          ("sweep/" + std::string(spec.op->name) + " " + identity(spec)).c_str(),
          [spec](benchmark::State& state) { sweep(state, spec); })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace opbound
