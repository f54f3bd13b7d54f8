// CUDA's functions of one number, as a user's program calls them: compiled without the flags that
// keep this project's own kernels from contracting operations.
#pragma once

#include <cstdint>

namespace opbound {

enum class CudaFunction : std::uint8_t {
  expf,
  fast_expf,
  exp2f,
  expm1f,
  logf,
  fast_logf,
  log1pf,
  tanhf,
  fast_tanhf,
  erff,
  erfcf,
  rsqrtf,
  hexp,
  hexp2,
  hlog,
  htanh,
  hrsqrt,
  bf16_hexp,
  bf16_hexp2,
  bf16_hlog,
  bf16_htanh,
  bf16_hrsqrt
};

/// Starts to[i] = the function of the number whose bits are first + i, for `count` of them. `to` is
/// in device memory; 16-bit functions' results are widened, exactly.
void start_cuda_function(CudaFunction f, std::uint64_t first, std::int64_t count, float* to);

}  // namespace opbound
