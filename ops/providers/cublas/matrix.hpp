// A tensor of opbound's as cuBLAS takes it: columns that lie one after the other, or the transpose.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "ops/provider.h"

namespace opbound::with_cublas {

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0;  ///< of op(what is stored)
  std::int64_t leading = 0;            ///< elements from a stored column to the next
  bool is_transposed = false;
  void* data = nullptr;
};

/// cuBLAS's name for opbound's format; Unsupported where it has none. tf32 is stored as fp32.
cudaDataType_t type_of(int element);

/// "bf16"
std::string name_of(cudaDataType_t type);

std::int64_t bytes_of(cudaDataType_t type);

inline bool is_fp8(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

/// A factor whose rows and columns run along these axes of the tensor; Unsupported where its
/// strides are none of a matrix.
Matrix factor(const opbound_tensor& t, int row_axis, int column_axis);

/// A tensor of two axes that lies row by row, as the matrix of its transpose. `may_repeat`: one row
/// for all, which only cuBLAS's C may be.
Matrix by_rows(const opbound_tensor& t, bool may_repeat = false);

/// Does it lie column by column, and not row by row as well?
bool lies_by_columns(const opbound_tensor& t);
/// Such a tensor, as the matrix that it is.
Matrix by_columns(const opbound_tensor& t);

/// Unsupported where a vector's elements do not lie one after the other.
void require_packed(const opbound_tensor& t);

}  // namespace opbound::with_cublas
