// What a call of CUDA or cuBLAS answers, as exceptions.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

#include "ops/providers/plugin_side.hpp"

namespace opbound::with_cublas {

using namespace plugin_side;

/// "CUBLAS_STATUS_NOT_SUPPORTED"
std::string text_of(cublasStatus_t status);

/// Does it say that there is no such kernel, and not that something went wrong?
bool is_refusal(cublasStatus_t status);

/// Throws Unsupported for a refusal, std::runtime_error for every other failure.
void check(cublasStatus_t status, const char* called);
void check(cudaError_t status, const char* called);

}  // namespace opbound::with_cublas
