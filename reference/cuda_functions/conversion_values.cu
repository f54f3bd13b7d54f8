#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "ops/cuda.hpp"
#include "reference/cuda_functions/values.hpp"

namespace opbound {
namespace {

using C = CudaConversion;

__device__ std::uint32_t bits_of(__half x) { return __half_as_ushort(x); }
__device__ std::uint32_t bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ std::uint32_t bits_of(float x) { return __float_as_uint(x); }

/// The half of a pair of 16 or 8 bits that is in both places, or else a NaN.
__device__ std::uint32_t half_of(std::uint32_t low, std::uint32_t high, int bits) {
  return low == high ? low : (1U << (bits - 1)) - 1;
}
template <class Pair>
__device__ std::uint32_t half_of(Pair x) {
  return half_of(bits_of(x.x), bits_of(x.y), 16);
}

template <C c>
__device__ std::uint32_t of_float(float x) {
  if constexpr (c == C::float2half) return bits_of(__float2half(x));
  if constexpr (c == C::float2half_rn) return bits_of(__float2half_rn(x));
  if constexpr (c == C::float2half_rz) return bits_of(__float2half_rz(x));
  if constexpr (c == C::float2half_ru) return bits_of(__float2half_ru(x));
  if constexpr (c == C::float2half_rd) return bits_of(__float2half_rd(x));
  if constexpr (c == C::floats2half2_rn) return half_of(__floats2half2_rn(x, x));
  if constexpr (c == C::float2bfloat16) return bits_of(__float2bfloat16(x));
  if constexpr (c == C::float2bfloat16_rn) return bits_of(__float2bfloat16_rn(x));
  if constexpr (c == C::float2bfloat16_rz) return bits_of(__float2bfloat16_rz(x));
  if constexpr (c == C::float2bfloat16_ru) return bits_of(__float2bfloat16_ru(x));
  if constexpr (c == C::float2bfloat16_rd) return bits_of(__float2bfloat16_rd(x));
  if constexpr (c == C::floats2bfloat162_rn) return half_of(__floats2bfloat162_rn(x, x));
}

template <C c>
__device__ std::uint32_t of_double(double x) {
  if constexpr (c == C::double2float_rn) return bits_of(__double2float_rn(x));
  if constexpr (c == C::double2float_rz) return bits_of(__double2float_rz(x));
  if constexpr (c == C::double2float_ru) return bits_of(__double2float_ru(x));
  if constexpr (c == C::double2float_rd) return bits_of(__double2float_rd(x));
  if constexpr (c == C::double2half) return bits_of(__double2half(x));
  if constexpr (c == C::double2bfloat16) return bits_of(__double2bfloat16(x));
}

/// Between formats of 16 bits and fp32.
template <C c>
__device__ std::uint32_t of_narrow(unsigned short bits) {
  const __half half = __ushort_as_half(bits);
  const __nv_bfloat16 bfloat = __ushort_as_bfloat16(bits);
  if constexpr (c == C::half2float) return bits_of(__half2float(half));
  if constexpr (c == C::bfloat162float) return bits_of(__bfloat162float(bfloat));
  if constexpr (c == C::bfloat16_of_half) return bits_of(__nv_bfloat16(half));
  if constexpr (c == C::half_of_bfloat16) return bits_of(__half(bfloat));
}

template <C c>
__device__ std::uint32_t with_fp8(const conversion::Rule& rule, std::int64_t index) {
  const auto bits = static_cast<std::uint32_t>(index);
  const Format& narrow = c == C::fp8_to_half ? rule.from : rule.to;
  const __nv_fp8_interpretation_t kind = narrow.kind == Kind::e4m3 ? __NV_E4M3 : __NV_E5M2;
  const __nv_saturation_t saturation =
      rule.to.overflow == Overflow::saturate ? __NV_SATFINITE : __NV_NOSAT;
  const __half_raw half(__ushort_as_half(static_cast<unsigned short>(bits)));
  const __nv_bfloat16_raw bfloat(__ushort_as_bfloat16(static_cast<unsigned short>(bits)));
  const float x = __uint_as_float(bits);
  if constexpr (c == C::float_to_fp8) return __nv_cvt_float_to_fp8(x, saturation, kind);
  if constexpr (c == C::float2_to_fp8x2) {
    const unsigned pair = __nv_cvt_float2_to_fp8x2(make_float2(x, x), saturation, kind);
    return half_of(pair & 0xff, pair >> 8, 8);
  }
  if constexpr (c == C::double_to_fp8)
    return __nv_cvt_double_to_fp8(conversion::input_of(rule, index), saturation, kind);
  if constexpr (c == C::half_to_fp8) return __nv_cvt_halfraw_to_fp8(half, saturation, kind);
  if constexpr (c == C::bfloat16_to_fp8)
    return __nv_cvt_bfloat16raw_to_fp8(bfloat, saturation, kind);
  if constexpr (c == C::fp8_to_half)
    return __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), kind).x;
}

template <C c>
__device__ std::uint32_t value(const conversion::Rule& rule, std::int64_t index) {
  const auto bits = static_cast<std::uint32_t>(index);
  if constexpr (c <= C::floats2bfloat162_rn)
    return of_float<c>(__uint_as_float(bits));
  else if constexpr (c <= C::double2bfloat16)
    return of_double<c>(conversion::input_of(rule, index));
  else if constexpr (c <= C::half_of_bfloat16)
    return of_narrow<c>(static_cast<unsigned short>(bits));
  else
    return with_fp8<c>(rule, index);
}

template <C c>
__global__ void values(conversion::Rule rule, std::int64_t first, std::int64_t count,
                       std::uint32_t* to) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads)
    to[i] = value<c>(rule, first + i);
}

template <int k = 0>
void start(C c, const conversion::Rule& rule, std::int64_t first, std::int64_t count,
           std::uint32_t* to) {
  constexpr auto here = static_cast<C>(k);
  if (c == here)
    values<here><<<cuda::grid_of((count + 255) / 256), 256>>>(rule, first, count, to);
  else if constexpr (here != C::fp8_to_half)
    start<k + 1>(c, rule, first, count, to);
}

}  // namespace

void start_cuda_conversion(CudaConversion c, const conversion::Rule& rule, std::int64_t first,
                           std::int64_t count, std::uint32_t* to) {
  start(c, rule, first, count, to);
  OPBOUND_CUDA_CHECK(cudaGetLastError());
}

}  // namespace opbound
