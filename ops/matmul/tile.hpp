// The matrix product's tiled body on the device: the same bits as the sequential sum, faster.
#pragma once

#include "ops/matmul.hpp"  // IWYU pragma: keep

namespace opbound {

#ifdef __CUDACC__
/// A thread block makes a tile of side x side elements; slices of a and b, `depth` deep, go through
/// shared memory. Every element is one thread's, which takes k = 0, 1, 2, ... in turn by fused
/// multiply-adds as LaneSums::dot does, so that the order, and every bit, is the same.
struct matmul::forward::elements::tile {
  static constexpr int side = 64, depth = 16, own = 4;
  static constexpr int threads = side / own * (side / own);

  template <class T>
  static constexpr int shared_bytes = 2 * side* depth* static_cast<int>(sizeof(T));

  static bool serves(const Problem<matmul>& p) {
    return p.variant == sequential || p.variant == scales_first;
  }
  OPBOUND_HD static std::int64_t tiles(std::int64_t n) { return (n + side - 1) / side; }
  static std::int64_t blocks(const Sizes& s) { return tiles(s[0]) * tiles(s[1]); }

  template <class T, class Io>
  __device__ static void run(const Problem<matmul>& p, const Io& io, std::int64_t block,
                             void* shared) {
    const std::int64_t n = p.sizes[1], k = p.sizes[2];
    const std::int64_t top = block / tiles(n) * side, left = block % tiles(n) * side;
    T* rows = static_cast<T*>(shared);
    T* columns = rows + side * depth;
    const int row = static_cast<int>(threadIdx.x) / (side / own) * own;
    const int column = static_cast<int>(threadIdx.x) % (side / own) * own;
    T sum[own][own];
    for (auto& line : sum)
      for (T& element : line) element = Sum::empty<T>();
    for (std::int64_t first = 0; first < k; first += depth) {
      const int count = static_cast<int>(k - first < depth ? k - first : depth);
      load<T>(p, io, top, left, first, count, rows, columns);
      __syncthreads();
      for (int t = 0; t < count; ++t)
        for (int r = 0; r < own; ++r)
          for (int c = 0; c < own; ++c) {
            const T x = rows[(row + r) * depth + t], y = columns[t * side + column + c];
            sum[r][c] = first + t == 0 ? x * y : fma(x, y, sum[r][c]);
          }
      __syncthreads();
    }
    for (int r = 0; r < own; ++r)
      for (int c = 0; c < own; ++c) {
        const std::int64_t i = top + row + r, j = left + column + c;
        if (i < p.sizes[0] && j < n) io.put(d, i * n + j, finished<T>(p, io, i, j, sum[r][c]));
      }
  }

 private:
  template <class T, class Io>
  __device__ static void load(const Problem<matmul>& p, const Io& io, std::int64_t top,
                              std::int64_t left, std::int64_t first, int count, T* rows,
                              T* columns) {
    const std::int64_t m = p.sizes[0], n = p.sizes[1], k = p.sizes[2];
    for (int e = static_cast<int>(threadIdx.x); e < side * depth; e += threads) {
      const std::int64_t i = top + e / depth, t = e % depth;
      rows[e] = i < m && t < count ? io.get(a, i * k + first + t) : Sum::empty<T>();
      const std::int64_t s = e / side, j = left + e % side;
      columns[e] = s < count && j < n ? io.get(b, (first + s) * n + j) : Sum::empty<T>();
    }
  }
};
#endif

}  // namespace opbound
