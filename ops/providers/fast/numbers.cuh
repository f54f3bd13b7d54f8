// Numbers in fp32, bf16 and fp16 as kernels read and write them: fp32 in registers, each store one
// rounding to nearest.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ops/providers/fast/kernels.hpp"

namespace opbound::fast {

using bf16 = __nv_bfloat16;
using fp16 = __half;

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(bf16 x) { return __bfloat162float(x); }
__device__ inline float wide(fp16 x) { return __half2float(x); }

template <class X>
__device__ X narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 narrow<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline fp16 narrow<fp16>(float x) {
  return __float2half_rn(x);
}

/// Neighbours that one thread takes: 16 bytes of a 16-bit format, twice that of fp32.
inline constexpr int lane = 8;

/// n numbers that lie one after the other; `lane` of them are aligned to their size in bytes, up to
/// 16.
template <class X, int n>
struct alignas(n * sizeof(X) < 16 ? n * sizeof(X) : 16) Pack {
  X at[n];
};

/// The same, of a format that is told when the kernel runs: for what is read or written once.
struct Vector {
  void* data;
  int element;

  __device__ float get(std::int64_t i) const {
    if (element == OPBOUND_BF16) return wide(static_cast<const bf16*>(data)[i]);
    if (element == OPBOUND_FP16) return wide(static_cast<const fp16*>(data)[i]);
    return static_cast<const float*>(data)[i];
  }
  __device__ void put(std::int64_t i, float x) const {
    if (element == OPBOUND_BF16)
      static_cast<bf16*>(data)[i] = narrow<bf16>(x);
    else if (element == OPBOUND_FP16)
      static_cast<fp16*>(data)[i] = narrow<fp16>(x);
    else
      static_cast<float*>(data)[i] = x;
  }
};

// ---- sums of a warp and of a block, in an order that is the same each time

/// NaN where any is.
__device__ inline float larger(float a, float b) { return a != a || a > b ? a : b; }

struct Sum {
  __device__ static float combine(float a, float b) { return a + b; }
};
struct Max {
  __device__ static float combine(float a, float b) { return larger(a, b); }
};

template <class Kind>
__device__ float over_warp(float x) {
  for (int s = 16; s > 0; s /= 2) x = Kind::combine(x, __shfl_xor_sync(~0U, x, s));
  return x;
}
__device__ inline float warp_sum(float x) { return over_warp<Sum>(x); }

/// Of a block of at most 32 warps, all of which get it. `shared`: 32 numbers.
template <class Kind>
__device__ float over_block(float x, float* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32, own = static_cast<int>(threadIdx.x) / 32;
  x = over_warp<Kind>(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[own] = x;
  __syncthreads();
  float all = shared[0];
  for (int w = 1; w < warps; ++w) all = Kind::combine(all, shared[w]);
  return all;
}
__device__ inline float block_sum(float x, float* shared) { return over_block<Sum>(x, shared); }
__device__ inline float block_max(float x, float* shared) { return over_block<Max>(x, shared); }

// ---- host

inline bool is_stored(int element) {
  return element == OPBOUND_FP32 || element == OPBOUND_BF16 || element == OPBOUND_FP16;
}

inline std::int64_t count_of(const opbound_tensor& t) {
  std::int64_t n = 1;
  for (int a = 0; a < t.rank; ++a) n *= t.size[a];
  return n;
}

inline bool is_contiguous(const opbound_tensor& t) {
  std::int64_t step = 1;
  for (int a = t.rank; a-- > 0; step *= t.size[a])
    if (t.size[a] != 1 && t.stride[a] != step) return false;
  return true;
}

/// A tensor of fp32, bf16 or fp16 without gaps; Unsupported for any other.
inline const opbound_tensor& dense(const Call& c, const char* name) {
  const opbound_tensor& t = c.tensor(name);
  require(is_stored(t.element), std::string(name) + " in " + plugin_side::name_of(t.element) +
                                    ": it has fp32, bf16 and fp16");
  require(is_contiguous(t) || count_of(t) == 0, std::string(name) + " with gaps");
  return t;
}
inline Vector vector_of(const opbound_tensor& t) { return {t.data, t.element}; }

inline cudaStream_t stream_of(const Call& c) { return static_cast<cudaStream_t>(c.get().stream); }

inline void check_launch() {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// f with a value of the type that the element is stored in.
template <class F>
void with_type(int element, F f) {
  if (element == OPBOUND_BF16)
    f(bf16{});
  else if (element == OPBOUND_FP16)
    f(fp16{});
  else
    f(float{});
}

/// Can packs of `lane` of this tensor be read where they begin?
inline bool is_packed(const opbound_tensor& t) {
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0;
}

/// Blocks for so many threads, each of which takes what is left in turn.
inline unsigned blocks_for(std::int64_t threads, int block) {
  constexpr std::int64_t most = 1 << 16;
  const std::int64_t blocks = (threads + block - 1) / block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

}  // namespace opbound::fast
