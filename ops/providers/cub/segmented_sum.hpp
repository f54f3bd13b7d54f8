// One call of segmented_sum as CUB takes it, on the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "ops/provider.h"

namespace opbound::with_cub {

/// CUB has nothing for the call: a record `skipped` with this reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws std::runtime_error.
inline void check(cudaError_t status, const char* called) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(called) + ": " + cudaGetErrorString(status));
}

/// The sizes of the call and its tensors; `ids` or `offsets` is there.
struct Problem {
  long long rows, width, segments;
  const opbound_tensor *x, *ids, *offsets, *y;
  int compute;
  cudaStream_t stream;
  void* workspace;
  std::size_t workspace_size;
};

/// Bytes of scratch memory that `add_segments` needs.
std::size_t workspace_bytes(const Problem& problem);

void add_segments(const Problem& problem);

/// "3.0.1": of the headers that this was compiled with.
const char* cccl_version();

}  // namespace opbound::with_cub
