// Softmax in fp32 for CUDA: a block for each row, sums by a tree in shared memory.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>

#include "ops/provider.h"

namespace {

constexpr int threads = 256;

template <class F>
__device__ float reduce(float mine, F combine) {
  __shared__ float all[threads];
  all[threadIdx.x] = mine;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) all[threadIdx.x] = combine(all[threadIdx.x], all[threadIdx.x + half]);
  }
  __syncthreads();
  const float result = all[0];
  __syncthreads();  // before the next reduction overwrites it
  return result;
}

__global__ void softmax(opbound_tensor x, opbound_tensor y) {
  const auto in = [&](int64_t j) {
    return static_cast<const float*>(x.data)[blockIdx.x * x.stride[0] + j * x.stride[1]];
  };
  float top = -INFINITY, sum = 0;
  for (int64_t j = threadIdx.x; j < x.size[1]; j += threads) top = fmaxf(top, in(j));
  top = reduce(top, [](float a, float b) { return fmaxf(a, b); });
  for (int64_t j = threadIdx.x; j < x.size[1]; j += threads) sum += expf(in(j)-top);
  sum = reduce(sum, [](float a, float b) { return a + b; });
  for (int64_t j = threadIdx.x; j < x.size[1]; j += threads)
    static_cast<float*>(y.data)[blockIdx.x * y.stride[0] + j * y.stride[1]] = expf(in(j)-top) / sum;
}

int supports(const opbound_call* call, char* message, size_t size) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  const opbound_tensor* y = opbound_tensor_named(call, "y");
  if (call->compute == OPBOUND_FP32 && x->element == OPBOUND_FP32 && y->element == OPBOUND_FP32)
    return OPBOUND_OK;
  std::snprintf(message, size, "fp32 only");
  return OPBOUND_UNSUPPORTED;
}

int run(const opbound_call* call, char* message, size_t size) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  if (x->size[0] == 0) return OPBOUND_OK;
  softmax<<<static_cast<unsigned>(x->size[0]), threads, 0,
            static_cast<cudaStream_t>(call->stream)>>>(*x, *opbound_tensor_named(call, "y"));
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return OPBOUND_OK;
  std::snprintf(message, size, "%s", cudaGetErrorString(status));
  return OPBOUND_FAILED;
}

}  // namespace

extern "C" const opbound_provider* opbound_provider_v1() {
  static const opbound_algorithm algorithms[] = {{"softmax", "forward", "division"}};
  static opbound_provider provider{};
  provider.struct_size = sizeof provider;
  provider.abi_version = OPBOUND_ABI_VERSION;
  provider.device = OPBOUND_CUDA;
  provider.name = "mysoftmax";
  provider.version = "1.0";
  provider.run = run;
  provider.supports = supports;
  provider.algorithm_count = 1;
  provider.algorithms = algorithms;
  return &provider;
}
