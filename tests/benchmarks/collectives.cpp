// The all-reduce of 128 MiB on GPUs, ranks being processes that a launcher started: NCCL's own, and
// the reproducible one, by memory that ranks share and by what NCCL moves. GB/s is the bus
// bandwidth, as nccl-tests have it: 2 (p - 1) / p of the message over the time.
//
//   torchrun --no-python --nproc-per-node 2 build/tests/benchmark_collectives
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "distributed/collectives.hpp"

namespace opbound {
namespace {

constexpr std::int64_t message_bytes = std::int64_t{128} << 20;

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(code));
  std::exit(1);
}

/// What every benchmark needs; made once, since ranks meet once.
struct Setting {
  std::unique_ptr<Collectives> ranks = join_device_ranks(0);
  void* shared = nullptr;
  void* own = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;

  Setting() {
    check(cudaSetDevice(ranks->device()));
    check(cudaMalloc(&shared, message_bytes));
    check(cudaMalloc(&own, message_bytes));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    ranks->share(shared, message_bytes);
  }
};

Setting& setting() {
  static Setting s;
  return s;
}

/// Terms of every rank, so that anybody can add them.
double term(std::int64_t i, std::int32_t rank) {
  const std::int64_t k = (i * 2654435761 + rank * 40503) % 2001;
  return static_cast<double>(k - 1000) / 64;
}

std::vector<std::byte> terms_of(const Format& wire, std::int64_t count, std::int32_t rank) {
  const Element element = element_of(wire);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(element)));
  for (std::int64_t i = 0; i < count; ++i)
    store(element, bytes.data(), i, round_to(wire, term(i, rank)));
  return bytes;
}

/// Elements that are not the balanced tree's, of the first ones and of all others' middle and end.
std::int64_t wrong_elements(const Reducer& reducer, const std::vector<std::byte>& got,
                            std::int64_t count, std::int32_t ranks) {
  const Element element = element_of(reducer.wire);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; i += i < 100000 ? 1 : 97) {
    std::vector<double> sums;
    for (std::int32_t r = 0; r < ranks; ++r) sums.push_back(round_to(reducer.wire, term(i, r)));
    for (; sums.size() > 1; sums.resize(sums.size() / 2))
      for (std::size_t k = 0; k < sums.size() / 2; ++k)
        sums[k] = reducer.kept(reducer.combined(sums[2 * k], sums[2 * k + 1]));
    wrong += load(element, got.data(), i) != sums[0] ? 1 : 0;
  }
  return wrong;
}

void all_reduce_of(benchmark::State& state, Format wire, int order, bool is_shared) {
  Setting& s = setting();
  const std::int64_t count = message_bytes / wire.bytes();
  const Reducer reducer{.compute = order == all_reduce::any_order ? wire : fp32, .wire = wire};
  void* data = is_shared ? s.shared : s.own;
  const std::vector<std::byte> given = terms_of(wire, count, s.ranks->rank());
  check(cudaMemcpy(data, given.data(), given.size(), cudaMemcpyHostToDevice));
  s.ranks->all_reduce(data, count, reducer, order, s.stream);
  s.ranks->wait(s.stream);
  std::vector<std::byte> got(given.size());
  check(cudaMemcpy(got.data(), data, got.size(), cudaMemcpyDeviceToHost));
  const std::int64_t wrong = wrong_elements(reducer, got, count, s.ranks->size());
  if (wrong > 0 && order != all_reduce::any_order)
    std::printf("rank %d: %ld elements are wrong\n", s.ranks->rank(), wrong);
  check(cudaMemset(data, 0, message_bytes));  // sums of sums would overflow
  constexpr int calls = 20;
  for (int warm = 0; warm < 5; ++warm) s.ranks->all_reduce(data, count, reducer, order, s.stream);
  s.ranks->wait(s.stream);
  for (auto _ : state) {
    s.ranks->gather({});  // ranks begin together
    check(cudaEventRecord(s.begin, s.stream));
    for (int k = 0; k < calls; ++k) s.ranks->all_reduce(data, count, reducer, order, s.stream);
    check(cudaEventRecord(s.end, s.stream));
    s.ranks->wait(s.stream);
    float ms = 0;
    check(cudaEventElapsedTime(&ms, s.begin, s.end));
    state.SetIterationTime(ms / 1000 / calls);
  }
  const double p = s.ranks->size();
  state.counters["GB/s"] =
      benchmark::Counter(2 * (p - 1) / p * static_cast<double>(message_bytes) / 1e9,
                         benchmark::Counter::kIsIterationInvariantRate);
  if (wrong > 0 && order != all_reduce::any_order) state.SkipWithError("not the tree's bits");
}

const int registered = [] {
  struct Way {
    const char* name;
    int order;
    bool is_shared;
  };
  for (const Format& wire : {fp32, bf16})
    for (const Way& way : {Way{"nccl", all_reduce::any_order, false},
                           Way{"reproducible_shared", all_reduce::balanced_tree, true},
                           Way{"reproducible_exchanged", all_reduce::balanced_tree, false}})
      benchmark::RegisterBenchmark(
          (std::string(way.name) + "/" + std::string(name_of(wire))).c_str(),
          [wire, way](benchmark::State& state) {
            all_reduce_of(state, wire, way.order, way.is_shared);
          })
          ->UseManualTime()
          ->Iterations(5)
          ->Repetitions(3)
          ->ReportAggregatesOnly()
          ->Unit(benchmark::kMillisecond);
  return 0;
}();

}  // namespace
}  // namespace opbound
