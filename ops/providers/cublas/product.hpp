// One product d = alpha op(a) op(b) + beta c + bias of cuBLASLt.
#pragma once

#include "ops/providers/cublas/descriptor.hpp"
#include "ops/providers/cublas/matrix.hpp"
#include "ops/providers/cublas/settings.hpp"

namespace opbound::with_cublas {

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;  ///< the format of alpha and beta
  Matrix a, b, c, d;                  ///< c is not read where beta is 0
  double alpha = 1, beta = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  ///< read by BIAS, written by BGRADA: one element for each row of d
  const void* scale_a = nullptr;  ///< fp32, one for each row of op(a), or none
  const void* scale_b = nullptr;  ///< one for each column of op(b)
  bool fast = false;              ///< sums of fp8 stay in the units' digits
  bool only_units = false;        ///< no algorithm without matrix units
  bool is_turned = true;          ///< d is the transpose of the call's output
};

/// Unsupported where cuBLAS documents no product of these formats.
void require_formats(const Product& p);

/// A product with the algorithm that the heuristic gives for it, which may use so much workspace.
class ChosenProduct {
 public:
  ChosenProduct(const Product& p, const Settings& settings, std::uint64_t most_workspace);

  /// Enough for the algorithm and for those before it, so that with no more it is the same again.
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  void launch(void* workspace, std::size_t bytes, cudaStream_t stream) const;

 private:
  void describe();
  void choose(const Settings& settings, std::uint64_t most_workspace);
  Preference preference(const Settings& settings, std::uint64_t most_workspace) const;

  Product product_;
  Operation operation_;
  Layout a_, b_, c_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace opbound::with_cublas
