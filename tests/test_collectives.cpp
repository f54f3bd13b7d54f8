// The collectives that a training loop calls: on ranks that are threads, and on GPUs where there
// are some (each rank a process of its own, which a launcher started: RANK, WORLD_SIZE).
#include "distributed/collectives.hpp"

#include <gtest/gtest.h>

#include <cmath>

#ifdef OPBOUND_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "tests/collective_case.hpp"
#include "tests/thread_ranks.hpp"

namespace opbound {
namespace {

constexpr auto tree = all_reduce::balanced_tree;

/// Where a rank's tensors are: on the host, or on a device through copies.
class Place {
 public:
  virtual ~Place() = default;
  virtual void* make(std::size_t bytes) = 0;
  virtual void put(void* to, const std::vector<std::byte>& bytes) = 0;
  virtual std::vector<std::byte> get(const void* from, std::size_t bytes) = 0;
  virtual void* stream() const { return nullptr; }
};

class OnHost final : public Place {
 public:
  void* make(std::size_t bytes) override { return made_.emplace_back(bytes + 1).data(); }
  void put(void* to, const std::vector<std::byte>& bytes) override {
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(to));
  }
  std::vector<std::byte> get(const void* from, std::size_t bytes) override {
    const auto* first = static_cast<const std::byte*>(from);
    return {first, first + bytes};
  }

 private:
  std::vector<std::vector<std::byte>> made_;
};

std::vector<std::byte> bytes_of(const std::vector<double>& values, Element element) {
  const auto width = static_cast<std::size_t>(opbound::bytes_of(element));
  std::vector<std::byte> bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i)
    store(element, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  return bytes;
}

std::vector<double> values_of(const std::vector<std::byte>& bytes, Element element) {
  const auto width = static_cast<std::size_t>(opbound::bytes_of(element));
  std::vector<double> values(bytes.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load(element, bytes.data(), static_cast<std::int64_t>(i));
  return values;
}

/// A rank's sum of micro-batches, as a training loop makes it.
std::vector<double> micro_batch_sum(Collectives& ranks, Place& place, const CollectiveCase& c,
                                    std::int64_t n, bool is_shared) {
  const Element element = element_of(c.reducer.wire);
  const auto bytes = static_cast<std::size_t>(n * opbound::bytes_of(element));
  MicroBatchSum sum(ranks, c.reducer, n);
  std::vector<void*> slots;
  for (std::int32_t k = 0; k < sum.slot_count(); ++k) slots.push_back(place.make(bytes));
  if (is_shared) ranks.share(slots[0], static_cast<std::int64_t>(bytes));
  for (int step = 0; step < 2; ++step) {  // the second finds what the first left
    sum.begin(slots);
    const Share& own = sum.share();
    for (std::int64_t m = own.first; m < own.first + own.count; ++m) {
      std::vector<double> gradient(static_cast<std::size_t>(n));
      c.gradient()(m, gradient);
      for (double& x : gradient) x = c.reducer.kept(c.reducer.term(x));
      place.put(sum.next(), bytes_of(gradient, element));
      sum.take(place.stream());
    }
    sum.all_reduce(place.stream());
    ranks.wait(place.stream());
  }
  return values_of(place.get(slots[0], bytes), element);
}

const std::vector<std::pair<const char*, all_reduce::Hop>> sum_formats{
    {"fp32", all_reduce::Hop::compute},           {"fp64", all_reduce::Hop::compute},
    {"bf16", all_reduce::Hop::compute},           {"bf16:fp32:bf16", all_reduce::Hop::output},
    {"bf16:fp32:bf16", all_reduce::Hop::compute}, {"fp16:fp32:fp16", all_reduce::Hop::output},
    {"e4m3:fp16:e4m3", all_reduce::Hop::output},  {"e5m2:fp32:e5m2", all_reduce::Hop::output}};

CollectiveCase sum_case(std::int32_t micro_batches, std::int64_t n, const char* precision,
                        all_reduce::Reduction reduction, all_reduce::Hop hop) {
  return {tree, micro_batches, n, precision, {reduction, all_reduce::Divides::after, hop}};
}

TEST(Collectives, MicroBatchesHaveOneSetOfBits) {
  for (const auto& format : sum_formats)
    for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::mean})
      for (const std::int32_t micro_batches : {1, 2, 5, 8, 13}) {
        CollectiveCase c = sum_case(micro_batches, 37, format.first, reduction, format.second);
        const std::vector<double> expected = c.by_op();
        for (std::int32_t ranks = 1; ranks <= micro_batches; ranks *= 2)
          on_thread_ranks(ranks, [&](std::unique_ptr<Communicator> communicator) {
            const auto own = host_collectives(std::move(communicator), "threads");
            OnHost place;
            EXPECT_TRUE(same_bits(c.stored(micro_batch_sum(*own, place, c, 37, false)), expected))
                << format.first << " " << ranks << " of " << micro_batches;
          });
      }
}

/// Every order of the schedules, and any order, on any number of ranks.
TEST(Collectives, AllReduceHasTheOrdersBits) {
  for (const int order : all_orders())
    for (const std::int32_t ranks : {1, 2, 3, 4, 8}) {
      if (!refusal({Collective::all_reduce, order, ranks}).empty()) continue;
      CollectiveCase c(order, ranks, 37, "fp32");
      const std::vector<double> expected = c.by_op();
      on_thread_ranks(ranks, [&](std::unique_ptr<Communicator> communicator) {
        const auto own = host_collectives(std::move(communicator), "threads");
        std::vector<std::byte> data =
            bytes_of(c.terms[static_cast<std::size_t>(own->rank())], Element::fp32);
        own->all_reduce(data.data(), 37, c.reducer, order);
        EXPECT_TRUE(same_bits(values_of(data, Element::fp32), expected)) << name_of_order(order);
      });
    }
}

TEST(Collectives, ShardsAreReducedAndGathered) {
  for (const std::int32_t ranks : {1, 2, 3, 4}) {
    CollectiveCase c(ranks == 3 ? all_reduce::ring : tree, ranks, 12 * ranks, "fp32");
    const std::vector<double> expected = c.by_op();
    on_thread_ranks(ranks, [&](std::unique_ptr<Communicator> communicator) {
      const auto own = host_collectives(std::move(communicator), "threads");
      const auto rank = static_cast<std::size_t>(own->rank());
      std::vector<std::byte> data = bytes_of(c.terms[rank], Element::fp32);
      own->reduce_scatter(data.data(), 12 * ranks, c.reducer, all_reduce::any_order);
      std::vector<double> part = values_of(data, Element::fp32);
      for (std::size_t i = 0; i < part.size(); ++i)
        if (i / 12 != rank) part[i] = -1;  // of others: unspecified
      data = bytes_of(part, Element::fp32);
      own->all_gather(data.data(), 12 * ranks, Element::fp32);
      EXPECT_TRUE(same_bits(values_of(data, Element::fp32), expected)) << ranks;
      data = bytes_of(c.terms[rank], Element::fp32);
      own->broadcast(data.data(), 12 * ranks, Element::fp32);
      EXPECT_TRUE(same_bits(values_of(data, Element::fp32), c.terms[0]));
      const std::vector<std::byte> all = own->gather(std::as_bytes(std::span(&rank, 1)));
      EXPECT_EQ(all.size(), static_cast<std::size_t>(ranks) * sizeof rank);
    });
  }
}

TEST(Collectives, WhatCannotBeIsRefused) {
  on_thread_ranks(3, [&](std::unique_ptr<Communicator> communicator) {
    const auto own = host_collectives(std::move(communicator), "threads");
    const Reducer sum{.terms = 3};
    EXPECT_EQ(own->refusal_of(sum, all_reduce::any_order), "");
    EXPECT_EQ(own->refusal_of(sum, tree), "a power of two of ranks");
    float x = 1;
    EXPECT_THROW(own->all_reduce(&x, 1, sum, tree), InputError);
    EXPECT_THROW(MicroBatchSum(*own, sum, 1), InputError);
  });
  const auto one = host_collectives(nullptr, "one rank");
  const Reducer shares{
      .reduction = all_reduce::Reduction::mean, .divides = all_reduce::Divides::before, .terms = 2};
  EXPECT_EQ(one->refusal_of(shares, tree), "a mean that divides after it adds");
  EXPECT_THROW(MicroBatchSum(*one, shares, 1), InputError);
  float alone = 3;
  one->all_reduce(&alone, 1, Reducer{.terms = 1}, all_reduce::ring);
  EXPECT_EQ(alone, 3);
  EXPECT_THROW(MicroBatchSum(*one, Reducer{.terms = 0}, 1), InputError);
}

#ifdef OPBOUND_WITH_CUDA

void check(cudaError_t code) {
  if (code != cudaSuccess) throw ProviderFailure(cudaGetErrorString(code));
}

class OnDevice final : public Place {
 public:
  OnDevice() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    for (void* memory : made_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }
  void* make(std::size_t bytes) override {
    made_.push_back(nullptr);
    check(cudaMalloc(&made_.back(), bytes));
    return made_.back();
  }
  void put(void* to, const std::vector<std::byte>& bytes) override {
    // in the stream's order: what it still reads is not overwritten
    check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_));
    check(cudaStreamSynchronize(stream_));
  }
  std::vector<std::byte> get(const void* from, std::size_t bytes) override {
    std::vector<std::byte> got(bytes);
    check(cudaMemcpy(got.data(), from, bytes, cudaMemcpyDeviceToHost));
    return got;
  }
  void* stream() const override { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  std::vector<void*> made_;
};

/// The ranks of this machine's GPUs; nothing without one. NCCL is started once in a process.
Collectives* device_ranks() {
  static const std::unique_ptr<Collectives> ranks = [] {
    try {
      auto joined = join_device_ranks(0, 60);
      check(cudaSetDevice(joined->device()));
      return joined;
    } catch (const Unavailable&) {
      return std::unique_ptr<Collectives>();
    }
  }();
  return ranks.get();
}

TEST(CollectivesDevice, MicroBatchesHaveTheHostsBits) {
  Collectives* ranks = device_ranks();
  if (ranks == nullptr) GTEST_SKIP() << "no GPU, or no NCCL";
  OnDevice place;  // shared memory lives as long as the ranks
  for (const auto& [precision, hop] : sum_formats)
    for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::mean})
      for (const std::int32_t micro_batches : {8, 13})
        for (const std::int64_t n : {1, 37, 5000})
          for (const bool is_shared : {false, true}) {
            CollectiveCase c = sum_case(micro_batches, n, precision, reduction, hop);
            const std::vector<double> expected = c.by_op();
            const auto got = c.stored(micro_batch_sum(*ranks, place, c, n, is_shared));
            EXPECT_TRUE(same_bits(got, expected))
                << precision << " " << micro_batches << " " << n << " " << is_shared;
          }
}

TEST(CollectivesDevice, ShardsAreReducedAndGathered) {
  Collectives* ranks = device_ranks();
  if (ranks == nullptr) GTEST_SKIP() << "no GPU, or no NCCL";
  const std::int32_t p = ranks->size();
  const std::int64_t n = 120 * p;
  OnDevice place;
  for (const int order : {static_cast<int>(tree), static_cast<int>(all_reduce::any_order)}) {
    CollectiveCase c(tree, p, n, "fp32");
    const std::vector<double> expected = c.by_op();
    const auto bytes = static_cast<std::size_t>(n) * 4;
    void* data = place.make(bytes);
    const auto rank = static_cast<std::size_t>(ranks->rank());
    place.put(data, bytes_of(c.terms[rank], Element::fp32));
    ranks->reduce_scatter(data, n, c.reducer, order, place.stream());
    ranks->all_gather(data, n, Element::fp32, place.stream());
    ranks->wait(place.stream());
    const std::vector<double> got = values_of(place.get(data, bytes), Element::fp32);
    EXPECT_TRUE(p > 2 || same_bits(got, expected));  // of two ranks there is one order
    place.put(data, bytes_of(c.terms[rank], Element::fp32));
    ranks->broadcast(data, n, Element::fp32, place.stream());
    ranks->wait(place.stream());
    EXPECT_TRUE(same_bits(values_of(place.get(data, bytes), Element::fp32), c.terms[0]));
  }
}

/// A graph replays it: nothing of it is left on the host.
TEST(CollectivesDevice, AGraphRecordsIt) {
  Collectives* ranks = device_ranks();
  if (ranks == nullptr) GTEST_SKIP() << "no GPU, or no NCCL";
  OnDevice place;
  constexpr std::int64_t n = 4096;
  CollectiveCase c(tree, ranks->size(), n, "fp32");
  const std::vector<double> expected = c.by_op();
  const std::vector<std::byte> own =
      bytes_of(c.terms[static_cast<std::size_t>(ranks->rank())], Element::fp32);
  for (const bool is_shared : {false, true}) {
    void* data = place.make(own.size());
    if (is_shared) ranks->share(data, static_cast<std::int64_t>(own.size()));
    auto* const stream = static_cast<cudaStream_t>(place.stream());
    place.put(data, own);
    ranks->all_reduce(data, n, c.reducer, tree, stream);  // memory is reserved at first use
    ranks->wait(stream);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ranks->all_reduce(data, n, c.reducer, tree, stream);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&ready, graph, 0));
    for (int replay = 0; replay < 3; ++replay) {
      place.put(data, own);
      check(cudaGraphLaunch(ready, stream));
      ranks->wait(stream);
      EXPECT_TRUE(same_bits(values_of(place.get(data, own.size()), Element::fp32), expected))
          << is_shared << " " << replay;
    }
    check(cudaGraphExecDestroy(ready));
    check(cudaGraphDestroy(graph));
  }
}

#endif

}  // namespace
}  // namespace opbound
