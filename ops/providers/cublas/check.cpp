#include "ops/providers/cublas/check.hpp"

#include <stdexcept>

namespace opbound::with_cublas {

std::string text_of(cublasStatus_t status) {
  const char* name = cublasLtGetStatusName(status);
  return name == nullptr ? "status " + std::to_string(static_cast<int>(status)) : name;
}

bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

void check(cublasStatus_t status, const char* called) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(called) + ": " + text_of(status);
  if (is_refusal(status)) throw Unsupported(text);
  throw std::runtime_error(text);
}

void check(cudaError_t status, const char* called) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(called) + ": " + cudaGetErrorString(status));
}

}  // namespace opbound::with_cublas
