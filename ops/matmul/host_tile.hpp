// The matrix product's body for the host: the same bits as the sequential sum, with AVX2.
//
// Both operands are packed first, so that the inner loop reads one line after the other; a lane is
// one element's sum, which takes its terms 0, 1, 2, ... in turn by fused multiply-adds as
// LaneSums::dot does.
#pragma once

#include "ops/matmul/form.hpp"

#if defined(__AVX2__) && defined(__FMA__) && !defined(__CUDACC__)
#include <immintrin.h>

#include <vector>

#include "ops/parallel.hpp"

namespace opbound::detail {

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  using Vector = __m256;
  static Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
  static Vector all(float x) { return _mm256_set1_ps(x); }
  static Vector product(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector fused(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
};
template <>
struct Lanes<double> {
  using Vector = __m256d;
  static Vector load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, Vector v) { _mm256_storeu_pd(p, v); }
  static Vector all(double x) { return _mm256_set1_pd(x); }
  static Vector product(Vector a, Vector b) { return _mm256_mul_pd(a, b); }
  static Vector fused(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
};

template <class Form>
struct HostTile {
  static bool serves(const Problem<matmul>& p) {
    const Sizes e = Form::extents(p.sizes);
    const bool is_one_sum = p.variant == matmul::sequential || p.variant == matmul::scales_first;
    return is_one_sum && e[2] > 0;
  }

  template <class T, class Io>
  static void run(const Problem<matmul>& p, const Io& io) {
    constexpr int width = columns_of<T>;
    const Sizes e = Form::extents(p.sizes);
    const std::int64_t depth = e[2], bands = (e[0] + rows - 1) / rows;
    const std::int64_t strips = (e[1] + width - 1) / width;
    const auto size = [&](std::int64_t count) { return static_cast<std::size_t>(count); };
    std::vector<T> left(size(bands * rows * depth)), right(size(strips * width * depth));
    parallel_for(bands, rows * depth, [&](std::int64_t band) {
      T* to = left.data() + band * rows * depth;
      for (std::int64_t r = 0; r < rows && band * rows + r < e[0]; ++r)
        for (std::int64_t t = 0; t < depth; ++t)
          to[t * rows + r] = Form::template left<T>(p, io, band * rows + r, t);
    });
    parallel_for(strips, width * depth, [&](std::int64_t strip) {
      T* to = right.data() + strip * width * depth;
      for (std::int64_t t = 0; t < depth; ++t)
        for (std::int64_t c = 0; c < width && strip * width + c < e[1]; ++c)
          to[t * width + c] = Form::template right<T>(p, io, t, strip * width + c);
    });
    parallel_for(bands, rows * e[1] * (1 + depth / 64), [&](std::int64_t band) {
      T sums[rows * width];
      for (std::int64_t strip = 0; strip < strips; ++strip) {
        multiply(depth, left.data() + band * rows * depth, right.data() + strip * width * depth,
                 sums);
        for (std::int64_t r = 0; r < rows && band * rows + r < e[0]; ++r)
          for (std::int64_t c = 0; c < width && strip * width + c < e[1]; ++c)
            Form::template finish<T>(p, io, band * rows + r, strip * width + c,
                                     sums[r * width + c]);
      }
    });
  }

 private:
  static constexpr int rows = 6;  // 12 sums of a vector each: enough to hide a multiply-add's time
  template <class T>
  static constexpr int columns_of = 2 * static_cast<int>(32 / sizeof(T));

  template <class T>
  static void multiply(std::int64_t depth, const T* left, const T* right, T* sums) {
    using L = Lanes<T>;
    constexpr int width = columns_of<T>, half = width / 2;
    typename L::Vector low[rows], high[rows];
    typename L::Vector b0 = L::load(right), b1 = L::load(right + half);
    for (int r = 0; r < rows; ++r) {
      low[r] = L::product(L::all(left[r]), b0);
      high[r] = L::product(L::all(left[r]), b1);
    }
    for (std::int64_t t = 1; t < depth; ++t) {
      b0 = L::load(right + t * width);
      b1 = L::load(right + t * width + half);
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const typename L::Vector a = L::all(left[t * rows + r]);
        low[r] = L::fused(a, b0, low[r]);
        high[r] = L::fused(a, b1, high[r]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      L::store(sums + r * width, low[r]);
      L::store(sums + r * width + half, high[r]);
    }
  }
};

}  // namespace opbound::detail

namespace opbound {

struct matmul::forward::elements::host_tile : detail::HostTile<form> {};
struct matmul::backward::left::host_tile : detail::HostTile<form> {};
struct matmul::backward::right::host_tile : detail::HostTile<form> {};

}  // namespace opbound
#endif
