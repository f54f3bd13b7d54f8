// The ladder on the CPU, each rung alone: elements a second of the kernel, its bound, references in
// double-double and in intervals of MPFR numbers, and judging. One thread's work is timed by the
// process's time, so that the figures are of a core; build/tests/benchmark_rungs runs it.
#include <benchmark/benchmark.h>

#include "suites/prepare.hpp"
#include "suites/run.hpp"
#include "suites/suite.hpp"

namespace opbound {
namespace {

struct Problem {
  const char* op;
  Sizes sizes;
};

constexpr Problem problems[]{
    {"gelu", {4096}}, {"softmax", {64, 128}}, {"layer_norm", {64, 128}}, {"matmul", {32, 32, 256}}};

/// A case in fp32, run once, with everything that its rungs read.
struct Rungs {
  CaseSpec spec;
  Prepared prepared;
  BoundArrays bounds;
  std::int64_t elements = 0;

  explicit Rungs(const Problem& problem) {
    spec.op = find_op(problem.op);
    spec.attributes = spec.op->default_attributes;
    spec.precision = *precision_named("fp32");
    spec.sizes = problem.sizes;
    prepared = prepare(spec);
    spec.op->run(prepared.call);
    bounds = bounds_of(*spec.op, prepared.call, Contract{});
    for (const auto& b : bounds) elements += std::ssize(b.value);
  }
};

template <class F>
void time_rung(benchmark::State& state, const Problem& problem, F rung) {
  Rungs r(problem);
  for (auto _ : state) rung(r);
  state.SetItemsProcessed(state.iterations() * r.elements);
}

template <class F>
void add(const Problem& problem, const char* rung, F f) {
  benchmark::RegisterBenchmark((std::string(problem.op) + "/" + rung).c_str(),
                               [&problem, f](benchmark::State& s) { time_rung(s, problem, f); })
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
}

const int registered = [] {
  for (const Problem& p : problems) {
    add(p, "kernel", [](Rungs& r) { r.spec.op->run(r.prepared.call); });
    add(p, "bound", [](Rungs& r) {
      benchmark::DoNotOptimize(bounds_of(*r.spec.op, r.prepared.call, Contract{}));
    });
    add(p, "any order", [](Rungs& r) {
      const Contract any{{0}, Contract::Order::any, cuda_function_errors, {}};
      benchmark::DoNotOptimize(bounds_of(*r.spec.op, r.prepared.call, any));
    });
    add(p, "double-double", [](Rungs& r) {
      ReferenceArrays to(r.bounds.size());
      r.spec.op->reference_dd(r.prepared.call, to);
      benchmark::DoNotOptimize(to);
    });
    add(p, "MPFR 128", [](Rungs& r) {
      ReferenceArrays to(r.bounds.size());
      const BlockChoice all(r.spec.op->forward.parts.size());
      r.spec.op->reference_mpfr(r.prepared.call, 128, all, to);
      benchmark::DoNotOptimize(to);
    });
    add(p, "judged",
        [](Rungs& r) { benchmark::DoNotOptimize(certify(*r.spec.op, r.prepared.call, r.bounds)); });
  }
  return 0;
}();

}  // namespace
}  // namespace opbound
