// What a call of CUDA or cuBLAS answers, as exceptions.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace opbound::with_cublas {

/// This cuBLAS has no kernel for the call: a record `skipped` with this reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& why_not) {
  if (!holds) throw Unsupported(why_not);
}

/// "CUBLAS_STATUS_NOT_SUPPORTED"
std::string text_of(cublasStatus_t status);

/// Does it say that there is no such kernel, and not that something went wrong?
bool is_refusal(cublasStatus_t status);

/// Throws Unsupported for a refusal, std::runtime_error for every other failure.
void check(cublasStatus_t status, const char* called);
void check(cudaError_t status, const char* called);

}  // namespace opbound::with_cublas
