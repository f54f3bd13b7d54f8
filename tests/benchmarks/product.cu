// A large product on the device, inputs made there.
#include "tests/benchmarks/product.hpp"

#include <chrono>

#include "ops/device_call.hpp"
#include "reference/certify_device.hpp"
#include "tests/benchmarks/floors.hpp"

namespace opbound::benchmarks {
namespace {

/// Sums of four uniform numbers, about normal, in bf16.
__global__ void fill(TensorView to, std::int64_t count, std::uint64_t seed) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    const std::uint64_t h = element_hash(i, seed);
    double sum = -2;
    for (int k = 0; k < 4; ++k) sum += static_cast<double>(h >> (16 * k) & 0xffff) * 0x1p-16;
    to.set(i, round_to(format_of(to.element), sum));
  }
}

template <class F>
double seconds_of(F run) {
  wait_for_device();
  const auto start = std::chrono::steady_clock::now();
  run();
  wait_for_device();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ProductTimes time_product(std::int64_t side) {
  const Op& op = *find_op("matmul");
  Call call;
  call.attributes = op.default_attributes;
  call.sizes = {side, side, side};
  call.compute = fp32;
  std::vector<cuda::Memory> memory;
  for (const TensorSpec& t : op.forward.tensors) {
    const bool is_there = op.has_tensor(call.attributes, t.name);
    const Shape shape = is_there ? Shape{side, side} : Shape{0};
    memory.push_back(cuda::memory_for<std::uint16_t>(is_there ? side * side : 0));
    call.forward.push_back(contiguous_view(Element::bf16, shape, memory.back().data()));
  }
  for (std::size_t t = 0; t < 2; ++t) {
    fill<<<4096, 256>>>(call.forward[t], side * side, 17 + t);
    OPBOUND_CUDA_CHECK(cudaGetLastError());
  }
  ProductTimes times;
  times.kernel_s = seconds_of([&] { op.run_on_device(call); });
  std::vector<FirstRung> first;
  for (int i = 0; i < 3; ++i) {  // the first run takes its memory
    times.certify_s = seconds_of([&] { first = first_rung_on_device(op, call); });
    std::optional<QuickCheck> quick;
    times.quick_s = seconds_of([&] { quick = op.quick_check_on_device(call, 5); });
    times.failing_rows = quick->failing;
  }
  times.within = first.front().tally.within;
  times.open = first.front().tally.undecided;
  times.exceeds = first.front().tally.exceeds;
  times.ratio = first.front().tally.worst_ratio;
  return times;
}

}  // namespace opbound::benchmarks
