// An Io whose storage formats are known when it is compiled: loads that can be started together,
// for kernels that have to keep up with memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/io.hpp"

namespace opbound::detail {

/// fp32 as bf16 or fp16, rounded to nearest even; NaN as `store` writes it.
template <Element stored>
__device__ inline std::uint16_t half_bits(float x) {
  static_assert(stored == Element::bf16 || stored == Element::fp16);
  if constexpr (stored == Element::bf16) {
    return x != x ? 0x7fc0 : __bfloat16_as_ushort(__float2bfloat16_rn(x));
  } else {
    return x != x ? 0x7e00 : __half_as_ushort(__float2half_rn(x));
  }
}
template <Element stored>
__device__ inline float of_half_bits(std::uint16_t bits) {
  static_assert(stored == Element::bf16 || stored == Element::fp16);
  if constexpr (stored == Element::bf16)
    return __uint_as_float(std::uint32_t{bits} << 16);
  else
    return __half2float(__ushort_as_half(bits));
}

/// For fp32 kernels of a pass whose tensors are contiguous and stored in `stored`, but for those
/// that are stored in the compute format whatever the precision is.
template <class Pass, Element stored>
struct TypedIo {
  Bindings tensors;

  static bool suits(const Bindings& b) {
    for (int t = 0; t < b.count; ++t) {
      const bool is_absent = b.view[t].data == nullptr;
      const Element expected = is_compute(t) ? Element::fp32 : stored;
      if (!is_absent && !(b.contiguous[t] && b.view[t].element == expected)) return false;
    }
    return true;
  }

  __device__ float get(int t, std::int64_t i) const {
    if constexpr (stored != Element::fp32)
      if (!is_compute(t)) return of_half_bits<stored>(pointer<std::uint16_t>(t)[i]);
    return pointer<float>(t)[i];
  }
  __device__ double exact(int t, std::int64_t i) const { return get(t, i); }
  __device__ bool is_finite(int t, std::int64_t i) const { return detail::is_finite(get(t, i)); }
  __device__ Format format(int t) const { return is_compute(t) ? fp32 : format_of(stored); }
  __device__ void put(int t, std::int64_t i, float value) const {
    if constexpr (stored != Element::fp32)
      if (!is_compute(t)) {
        pointer<std::uint16_t>(t)[i] = half_bits<stored>(value);
        return;
      }
    pointer<float>(t)[i] = value == value ? value : __uint_as_float(0x7fc00000U);
  }

 protected:
  /// A mask, since device code has no address of a table.
  static constexpr unsigned compute_mask = [] {
    unsigned mask = 0;
    for (std::size_t t = 0; t < Pass::tensors.size(); ++t)
      if (Pass::tensors[t].element == "compute") mask |= 1U << t;
    return mask;
  }();
  OPBOUND_HD static constexpr bool is_compute(int t) { return (compute_mask >> t & 1U) != 0; }

  template <class T>
  __device__ T* pointer(int t) const {
    return static_cast<T*>(tensors.view[t].data);
  }
};

}  // namespace opbound::detail
