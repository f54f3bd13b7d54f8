// CUDA from host code: every call checked, device memory owned. Plain cudaMalloc only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "ops/provider.hpp"

namespace opbound::cuda {

/// Throws ProviderFailure that names the call, the place and CUDA's reason.
inline void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw ProviderFailure(std::string(call) + " at " + file + ":" + std::to_string(line) + ": " +
                        cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}
#define OPBOUND_CUDA_CHECK(call) ::opbound::cuda::check((call), #call, __FILE__, __LINE__)

/// Bytes in device memory.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) OPBOUND_CUDA_CHECK(cudaMalloc(&data_, bytes));
  }
  ~Memory() {
    cudaFree(data_);
  }  // nothing can be thrown here; a broken device shows at the next call
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  Memory& operator=(Memory&&) = delete;

  void* data() const { return data_; }
  void copy_from_host(const void* source) {
    if (bytes_ > 0) OPBOUND_CUDA_CHECK(cudaMemcpy(data_, source, bytes_, cudaMemcpyHostToDevice));
  }
  void copy_to_host(void* target) const {
    if (bytes_ > 0) OPBOUND_CUDA_CHECK(cudaMemcpy(target, data_, bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace opbound::cuda
