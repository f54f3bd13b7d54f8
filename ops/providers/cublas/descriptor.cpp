#include "ops/providers/cublas/descriptor.hpp"

#include <cuda_fp16.h>

namespace opbound::with_cublas {

Scalar::Scalar(cudaDataType_t type, double value) {
  if (type == CUDA_R_64F)
    store(value);
  else if (type == CUDA_R_16F)
    store(__double2half(value));
  else
    store(static_cast<float>(value));
}

// One thread calls, and the process ends with the plug-in: the handle is left to it.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t one = [] {
    cublasLtHandle_t made = nullptr;
    check(cublasLtCreate(&made), "cublasLtCreate");
    return made;
  }();
  return one;
}

}  // namespace opbound::with_cublas
