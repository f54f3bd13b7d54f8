// Where segments begin and end, and what their elements are, for CUB's iterators.
//
// CUB adds items that lie one after the other. Rows of several columns are told to it column by
// column, item c rows + i being column c of row i, and a segment of rows as one segment for each
// column. Ids are sorted first (cub::DeviceRadixSort, which is stable), so that the rows of a
// segment are items in a row, whose places a binary search finds.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/cub.cuh>
#include <cuda/std/iterator>
#include <type_traits>

#include "ops/provider.h"

namespace opbound::with_cub {

/// A tensor of int32 or int64.
struct Index {
  const void* data;
  long long stride;
  bool is_wide;

  __host__ __device__ long long operator[](long long i) const {
    return is_wide ? static_cast<const long long*>(data)[i * stride]
                   : static_cast<const int*>(data)[i * stride];
  }
};

inline Index index_of(const opbound_tensor& t) {
  return {t.data, t.stride[0], t.element == OPBOUND_INT64};
}

/// The rows of segments: offsets as far as there are such rows, or `sorted` ids. CUB takes a
/// segment for empty only where its end is its beginning, and does not look for rows that are not
/// there.
struct Segments {
  Index offsets;
  const long long* sorted;
  long long rows, width;

  __device__ long long clipped(long long i) const { return i < 0 ? 0 : i > rows ? rows : i; }
  __device__ long long first_not_below(long long id) const {
    long long low = 0, high = rows;
    while (low < high) {
      const long long middle = low + (high - low) / 2;
      if (sorted[middle] < id)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  __device__ long long first_of(long long segment) const {
    return sorted != nullptr ? first_not_below(segment) : clipped(offsets[segment]);
  }
  __device__ long long end_of(long long segment) const {
    if (sorted != nullptr) return first_not_below(segment + 1);
    const long long first = first_of(segment), end = clipped(offsets[segment + 1]);
    return end < first ? first : end;
  }
};

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

/// The item at which segment `at` begins or ends; segments of columns alternate.
struct Bounds : Iterator<Bounds, long long> {
  Segments segments;
  bool is_end = false;

  __device__ long long operator[](long long i) const {
    const long long segment = (at + i) / segments.width, column = (at + i) % segments.width;
    const long long row = is_end ? segments.end_of(segment) : segments.first_of(segment);
    return column * segments.rows + row;
  }
  __device__ long long operator*() const { return (*this)[0]; }
};

/// Elements of x in the format of the sum; `order` are the rows sorted by their ids.
template <class Sum>
struct Elements : Iterator<Elements<Sum>, Sum> {
  const void* data = nullptr;
  int element = 0;
  long long rows = 0, row_stride = 0, column_stride = 0;
  const long long* order = nullptr;

  __device__ Sum operator[](long long i) const {
    const long long item = this->at + i, column = item / rows, place = item % rows;
    const long long row = order == nullptr ? place : order[place];
    const long long k = row * row_stride + column * column_stride;
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
  void* data = nullptr;
  int element = 0;
  long long width = 1, row_stride = 0, column_stride = 0;

  __device__ Place<Sum> operator[](long long i) const {
    const long long segment = this->at + i;
    return {data, element, segment / width * row_stride + segment % width * column_stride};
  }
  __device__ Place<Sum> operator*() const { return (*this)[0]; }
};

}  // namespace opbound::with_cub
