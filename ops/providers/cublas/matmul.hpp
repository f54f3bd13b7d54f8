// A pass of opbound's matmul as products of cuBLASLt.
#pragma once

#include <optional>
#include <vector>

#include "ops/providers/cublas/product.hpp"

namespace opbound::with_cublas {

/// to = by * from, element by element.
struct Scaling {
  Matrix from, to;
  double by = 1;
  cudaDataType_t scale = CUDA_R_32F;
};

/// What a call is made of, one after the other on its stream.
struct Plan {
  std::vector<Product> products;
  std::optional<Scaling> scaling;
};

/// Reads no tensor, only where and how they lie. Unsupported, with the reason, for what cuBLAS does
/// not document.
Plan plan_of(const opbound_call& call, const Settings& settings);

/// Bytes of workspace that the products' algorithms want.
std::size_t workspace_bytes(const Plan& plan, const Settings& settings);

void run(const Plan& plan, const Settings& settings, const opbound_call& call);

}  // namespace opbound::with_cublas
