#include "reference/cuda_functions/values.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda.hpp"

namespace opbound {
namespace {

__device__ __half half_of(std::uint32_t bits) {
  return __ushort_as_half(static_cast<unsigned short>(bits));
}
__device__ __nv_bfloat16 bfloat_of(std::uint32_t bits) {
  return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
}

template <CudaFunction f>
__device__ float value(std::uint32_t bits) {
  using F = CudaFunction;
  const float x = __uint_as_float(bits);
  if constexpr (f == F::expf) return expf(x);
  if constexpr (f == F::fast_expf) return __expf(x);
  if constexpr (f == F::exp2f) return exp2f(x);
  if constexpr (f == F::expm1f) return expm1f(x);
  if constexpr (f == F::logf) return logf(x);
  if constexpr (f == F::fast_logf) return __logf(x);
  if constexpr (f == F::log1pf) return log1pf(x);
  if constexpr (f == F::tanhf) return tanhf(x);
  if constexpr (f == F::fast_tanhf) return __tanhf(x);
  if constexpr (f == F::erff) return erff(x);
  if constexpr (f == F::erfcf) return erfcf(x);
  if constexpr (f == F::rsqrtf) return rsqrtf(x);
  if constexpr (f == F::hexp) return __half2float(hexp(half_of(bits)));
  if constexpr (f == F::hexp2) return __half2float(hexp2(half_of(bits)));
  if constexpr (f == F::hlog) return __half2float(hlog(half_of(bits)));
  if constexpr (f == F::htanh) return __half2float(htanh(half_of(bits)));
  if constexpr (f == F::hrsqrt) return __half2float(hrsqrt(half_of(bits)));
  if constexpr (f == F::bf16_hexp) return __bfloat162float(hexp(bfloat_of(bits)));
  if constexpr (f == F::bf16_hexp2) return __bfloat162float(hexp2(bfloat_of(bits)));
  if constexpr (f == F::bf16_hlog) return __bfloat162float(hlog(bfloat_of(bits)));
  if constexpr (f == F::bf16_htanh) return __bfloat162float(htanh(bfloat_of(bits)));
  if constexpr (f == F::bf16_hrsqrt) return __bfloat162float(hrsqrt(bfloat_of(bits)));
}

template <CudaFunction f>
__global__ void values(std::uint64_t first, std::int64_t count, float* to) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads)
    to[i] = value<f>(static_cast<std::uint32_t>(first + static_cast<std::uint64_t>(i)));
}

template <int k = 0>
void start(CudaFunction f, std::uint64_t first, std::int64_t count, float* to) {
  constexpr auto here = static_cast<CudaFunction>(k);
  if (f == here)
    values<here><<<cuda::grid_of((count + 255) / 256), 256>>>(first, count, to);
  else if constexpr (here != CudaFunction::bf16_hrsqrt)
    start<k + 1>(f, first, count, to);
}

}  // namespace

void start_cuda_function(CudaFunction f, std::uint64_t first, std::int64_t count, float* to) {
  start(f, first, count, to);
  OPBOUND_CUDA_CHECK(cudaGetLastError());
}

}  // namespace opbound
