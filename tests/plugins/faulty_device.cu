// A plug-in for CUDA that copies x to y, broken in the way that OPBOUND_TEST_FAULT names.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

#include "ops/provider.h"

namespace {

__global__ void copy(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
}
__global__ void write(float* where) { *where = 1; }
__global__ void spin(volatile float* y) {
  while (y[0] != 1.5F) y[0] = 0.5F;
}

bool fault_is(const char* name) {
  const char* fault = std::getenv("OPBOUND_TEST_FAULT");
  return fault != nullptr && std::strcmp(fault, name) == 0;
}

int run(const opbound_call* call, char*, size_t) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  auto* y = static_cast<float*>(opbound_tensor_named(call, "y")->data);
  const auto stream = static_cast<cudaStream_t>(call->stream);
  copy<<<1, 1, 0, stream>>>(static_cast<const float*>(x->data), y, x->size[0]);
  if (x->size[0] != 64) return OPBOUND_OK;
  if (fault_is("crash")) write<<<1, 1, 0, stream>>>(nullptr);
  if (fault_is("behind")) write<<<1, 1, 0, stream>>>(y + x->size[0]);
  if (fault_is("input")) write<<<1, 1, 0, stream>>>(static_cast<float*>(x->data));
  if (fault_is("hang")) spin<<<1, 1, 0, stream>>>(y);
  return OPBOUND_OK;
}

}  // namespace

extern "C" const opbound_provider* opbound_provider_v1() {
  static const opbound_algorithm algorithms[] = {{"cast", "forward", "nearest"}};
  static opbound_provider provider{};
  provider.struct_size = sizeof provider;
  provider.abi_version = OPBOUND_ABI_VERSION;
  provider.device = OPBOUND_CUDA;
  provider.name = "faulty_device";
  provider.run = run;
  provider.algorithm_count = 1;
  provider.algorithms = algorithms;
  return &provider;
}
