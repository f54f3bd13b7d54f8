// What CUB reads from and writes to: iterators over items, their segments and their sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/cub.cuh>
#include <cuda/std/iterator>
#include <type_traits>

#include "ops/provider.h"
#include "ops/providers/cub/segments.hpp"

namespace opbound::with_cub {

/// What an iterator has to say of itself.
template <class Self, class Value, class Reference = Value>
struct Iterator {
  using iterator_category = ::cuda::std::random_access_iterator_tag;
  using value_type = Value;
  using difference_type = long long;
  using pointer = void;
  using reference = Reference;

  long long at = 0;

  __host__ __device__ Self operator+(long long n) const {
    Self moved = static_cast<const Self&>(*this);
    moved.at += n;
    return moved;
  }
  __host__ __device__ Self& operator+=(long long n) {
    at += n;
    return static_cast<Self&>(*this);
  }
};

/// The items at which segments begin or end.
struct Bounds : Iterator<Bounds, long long> {
  Segments segments;
  bool is_end = false;

  __device__ long long operator[](long long i) const {
    return is_end ? segments.end_item(at + i) : segments.first_item(at + i);
  }
  __device__ long long operator*() const { return (*this)[0]; }
};

/// Elements of x in the format of the sum.
template <class Sum>
struct Elements : Iterator<Elements<Sum>, Sum> {
  Items items;
  const void* data = nullptr;
  int element = 0;

  __device__ Sum operator[](long long i) const {
    const long long k = items.place_of(this->at + i);
    if constexpr (std::is_same_v<Sum, float>) {
      if (element == OPBOUND_BF16)
        return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[k]);
      if (element == OPBOUND_FP16) return __half2float(static_cast<const __half*>(data)[k]);
    }
    return static_cast<const Sum*>(data)[k];
  }
  __device__ Sum operator*() const { return (*this)[0]; }
};

/// Where a sum goes, rounded once to what y is stored in.
template <class Sum>
struct Place {
  void* data;
  int element;
  long long k;

  __device__ void operator=(Sum sum) const {
    if constexpr (std::is_same_v<Sum, float>) {
      if (element == OPBOUND_BF16) {
        static_cast<__nv_bfloat16*>(data)[k] = __float2bfloat16_rn(sum);
        return;
      }
      if (element == OPBOUND_FP16) {
        static_cast<__half*>(data)[k] = __float2half_rn(sum);
        return;
      }
    }
    static_cast<Sum*>(data)[k] = sum;
  }
};

template <class Sum>
struct Sums : Iterator<Sums<Sum>, Sum, Place<Sum>> {
  Results results;
  void* data = nullptr;
  int element = 0;

  __device__ Place<Sum> operator[](long long i) const {
    return {data, element, results.place_of(this->at + i)};
  }
  __device__ Place<Sum> operator*() const { return (*this)[0]; }
};

}  // namespace opbound::with_cub
