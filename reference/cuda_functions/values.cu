#include "reference/cuda_functions/values.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "ops/cuda.hpp"

namespace opbound {
namespace {

using F = CudaFunction;

template <F f>
__device__ float of_float(float x) {
  if constexpr (f == F::expf) return expf(x);
  if constexpr (f == F::fast_expf) return __expf(x);
  if constexpr (f == F::exp2f) return exp2f(x);
  if constexpr (f == F::exp10f) return exp10f(x);
  if constexpr (f == F::fast_exp10f) return __exp10f(x);
  if constexpr (f == F::expm1f) return expm1f(x);
  if constexpr (f == F::logf) return logf(x);
  if constexpr (f == F::fast_logf) return __logf(x);
  if constexpr (f == F::log2f) return log2f(x);
  if constexpr (f == F::fast_log2f) return __log2f(x);
  if constexpr (f == F::log10f) return log10f(x);
  if constexpr (f == F::fast_log10f) return __log10f(x);
  if constexpr (f == F::log1pf) return log1pf(x);
  if constexpr (f == F::tanhf) return tanhf(x);
  if constexpr (f == F::fast_tanhf) return __tanhf(x);
  if constexpr (f == F::erff) return erff(x);
  if constexpr (f == F::erfcf) return erfcf(x);
  if constexpr (f == F::sinf) return sinf(x);
  if constexpr (f == F::fast_sinf) return __sinf(x);
  if constexpr (f == F::cosf) return cosf(x);
  if constexpr (f == F::fast_cosf) return __cosf(x);
  if constexpr (f == F::sqrtf) return sqrtf(x);
  if constexpr (f == F::rsqrtf) return rsqrtf(x);
  if constexpr (f == F::rsqrtf_rn) return __frsqrt_rn(x);
  if constexpr (f == F::reciprocalf) return 1.0F / x;
}

/// Of __half and of __nv_bfloat16: the names are the same.
template <F f, class T>
__device__ T of_narrow(T x) {
  if constexpr (f == F::hexp) return hexp(x);
  if constexpr (f == F::hexp2) return hexp2(x);
  if constexpr (f == F::hexp10) return hexp10(x);
  if constexpr (f == F::hlog) return hlog(x);
  if constexpr (f == F::hlog2) return hlog2(x);
  if constexpr (f == F::hlog10) return hlog10(x);
  if constexpr (f == F::htanh) return htanh(x);
  if constexpr (f == F::htanh_approx) return htanh_approx(x);
  if constexpr (f == F::hsin) return hsin(x);
  if constexpr (f == F::hcos) return hcos(x);
  if constexpr (f == F::hsqrt) return hsqrt(x);
  if constexpr (f == F::hrsqrt) return hrsqrt(x);
  if constexpr (f == F::hrcp) return hrcp(x);
}

/// Of __half2 and of __nv_bfloat162.
template <F f, class T>
__device__ T of_pair(T x) {
  if constexpr (f == F::h2exp) return h2exp(x);
  if constexpr (f == F::h2exp2) return h2exp2(x);
  if constexpr (f == F::h2exp10) return h2exp10(x);
  if constexpr (f == F::h2log) return h2log(x);
  if constexpr (f == F::h2log2) return h2log2(x);
  if constexpr (f == F::h2log10) return h2log10(x);
  if constexpr (f == F::h2tanh) return h2tanh(x);
  if constexpr (f == F::h2tanh_approx) return h2tanh_approx(x);
  if constexpr (f == F::h2sin) return h2sin(x);
  if constexpr (f == F::h2cos) return h2cos(x);
  if constexpr (f == F::h2sqrt) return h2sqrt(x);
  if constexpr (f == F::h2rsqrt) return h2rsqrt(x);
  if constexpr (f == F::h2rcp) return h2rcp(x);
}

struct Half {
  using Pair = __half2;
  __device__ static __half of(std::uint32_t bits) {
    return __ushort_as_half(static_cast<unsigned short>(bits));
  }
  __device__ static Pair twice(__half x) { return __half2half2(x); }
  __device__ static unsigned short bits_of(__half x) { return __half_as_ushort(x); }
  __device__ static float widened(__half x) { return __half2float(x); }
};

struct Bfloat {
  using Pair = __nv_bfloat162;
  __device__ static __nv_bfloat16 of(std::uint32_t bits) {
    return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
  }
  __device__ static Pair twice(__nv_bfloat16 x) { return __bfloat162bfloat162(x); }
  __device__ static unsigned short bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
  __device__ static float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
};

template <F f, class Type>
__device__ float value(std::uint32_t bits) {
  if constexpr (std::is_same_v<Type, float>) {
    return of_float<f>(__uint_as_float(bits));
  } else if constexpr (f < F::h2exp) {
    return Type::widened(of_narrow<f>(Type::of(bits)));
  } else {
    const typename Type::Pair y = of_pair<f>(Type::twice(Type::of(bits)));
    const bool are_equal = Type::bits_of(y.x) == Type::bits_of(y.y);
    return are_equal ? Type::widened(y.x) : __int_as_float(0x7fffffff);
  }
}

template <F f, class Type>
__global__ void values(std::uint64_t first, std::int64_t count, float* to) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads)
    to[i] = value<f, Type>(static_cast<std::uint32_t>(first + static_cast<std::uint64_t>(i)));
}

template <F f, class Type>
void launch(std::uint64_t first, std::int64_t count, float* to) {
  values<f, Type><<<cuda::grid_of((count + 255) / 256), 256>>>(first, count, to);
}

template <int k = 0>
void start(F f, CudaArgument argument, std::uint64_t first, std::int64_t count, float* to) {
  constexpr auto here = static_cast<F>(k);
  if (f != here) {
    if constexpr (here != F::h2rcp) start<k + 1>(f, argument, first, count, to);
  } else if constexpr (here < F::hexp) {
    launch<here, float>(first, count, to);
  } else if (argument == CudaArgument::fp16) {
    launch<here, Half>(first, count, to);
  } else {
    launch<here, Bfloat>(first, count, to);
  }
}

}  // namespace

void start_cuda_function(CudaFunction f, CudaArgument argument, std::uint64_t first,
                         std::int64_t count, float* to) {
  start(f, argument, first, count, to);
  OPBOUND_CUDA_CHECK(cudaGetLastError());
}

}  // namespace opbound
