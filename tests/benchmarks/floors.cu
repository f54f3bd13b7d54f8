// The two limits of the device that runs the benchmarks: fp64 multiply-adds and copies a second.
#include "tests/benchmarks/floors.hpp"

#include "ops/cuda.hpp"

namespace opbound::benchmarks {
namespace {

constexpr int chains = 8, steps = 4096, threads = 256, blocks = 132 * 8;

__global__ void multiply_add(double* to, double x, double y) {
  double sum[chains];
  for (int c = 0; c < chains; ++c) sum[c] = c + static_cast<double>(threadIdx.x);
  for (int s = 0; s < steps; ++s)
    for (int c = 0; c < chains; ++c) sum[c] = __fma_rn(sum[c], x, y);
  double total = 0;
  for (int c = 0; c < chains; ++c) total += sum[c];
  to[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

}  // namespace

double fastest_ms(const std::function<void()>& start) {
  cudaEvent_t begin{}, end{};
  OPBOUND_CUDA_CHECK(cudaEventCreate(&begin));
  OPBOUND_CUDA_CHECK(cudaEventCreate(&end));
  float best = 1e30F;
  for (int i = 0; i < 5; ++i) {
    OPBOUND_CUDA_CHECK(cudaEventRecord(begin));
    start();
    OPBOUND_CUDA_CHECK(cudaEventRecord(end));
    OPBOUND_CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    OPBOUND_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    best = ms < best ? ms : best;
  }
  OPBOUND_CUDA_CHECK(cudaEventDestroy(begin));
  OPBOUND_CUDA_CHECK(cudaEventDestroy(end));
  return static_cast<double>(best);
}

double multiply_adds_per_second() {
  const cuda::Memory to = cuda::memory_for<double>(std::int64_t{blocks} * threads);
  const double ms = fastest_ms([&] {
    multiply_add<<<blocks, threads>>>(to.as<double>(), 1 + 0x1p-30, 0x1p-30);
    OPBOUND_CUDA_CHECK(cudaGetLastError());
  });
  return 1e3 * blocks * threads * static_cast<double>(chains) * steps / ms;
}

double copied_bytes_per_second() {
  constexpr std::size_t bytes = std::size_t{1} << 30;
  const cuda::Memory from(bytes), to(bytes);
  const double ms = fastest_ms([&] {
    OPBOUND_CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice));
  });
  return 1e3 * 2 * static_cast<double>(bytes) / ms;  // read and written
}

void wait_for_device() { OPBOUND_CUDA_CHECK(cudaDeviceSynchronize()); }

}  // namespace opbound::benchmarks
