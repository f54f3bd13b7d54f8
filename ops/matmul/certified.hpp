// A large product judged in fp64: exact values with radii, gauges, and a bound of every order.
#pragma once

#include "bounds/product.hpp"
#include "ops/io.hpp"
#include "ops/matmul.hpp"  // IWYU pragma: keep
#include "ops/op.hpp"

namespace opbound {

#ifdef __CUDACC__
/// Every element's sums of a b and |a b| in fp64, tile by tile, by fused multiply-adds, and what
/// bounds/product.hpp makes of them. `operands`: a, row by row, then b; `shared`: a slice of each.
struct matmul::forward::elements::certified {
  static constexpr int rows = 128, columns = 64, depth = 16, own_rows = 8, own_columns = 4;
  static constexpr int threads = rows / own_rows * (columns / own_columns);
  static constexpr int shared_bytes = (rows + columns) * depth * static_cast<int>(sizeof(double));

  /// Where bounds element by element cost more than the kernel, and no epilogue rounds too.
  static bool serves(const Problem<matmul>& p) {
    const Attributes& a = p.attributes;
    const double terms = static_cast<double>(p.sizes[0]) * static_cast<double>(p.sizes[1]) *
                         static_cast<double>(p.sizes[2]);
    const bool is_plain = a.alpha == 1 && a.beta == 0 && !a.bias && !a.scaled;
    return p.variant < volta && terms >= 0x1p31 && is_plain;
  }
  static std::int64_t blocks(const Sizes& s) {
    return (s[0] + rows - 1) / rows * ((s[1] + columns - 1) / columns);
  }
  /// Doubles of memory that the operands are unpacked to.
  static std::int64_t unpacked(const Sizes& s) { return s[0] * s[2] + s[2] * s[1]; }

  /// One element of the unpacked operands.
  __device__ static void unpack(const Problem<matmul>& p, const Bindings& tensors, std::int64_t e,
                                double* to) {
    const std::int64_t of_a = p.sizes[0] * p.sizes[2];
    to[e] = e < of_a ? tensors.load_at(a, e) : tensors.load_at(b, e - of_a);
  }

  struct Results {
    DeviceBound bound;
    DeviceReference reference;
    Format compute;  ///< of the kernel
  };

  __device__ static void run(const Problem<matmul>& p, const double* operands, const Results& to,
                             std::int64_t block, double* shared) {
    const std::int64_t m = p.sizes[0], n = p.sizes[1], k = p.sizes[2];
    const std::int64_t across = (n + columns - 1) / columns;
    const std::int64_t top = block / across * rows, left = block % across * columns;
    const double *const x = operands, *const y = operands + m * k;
    double *const slice_x = shared, *const slice_y = shared + rows * depth;
    const int lane = static_cast<int>(threadIdx.x);
    const int row = lane / (columns / own_columns), column = lane % (columns / own_columns);
    double sum[own_rows][own_columns] = {}, size[own_rows][own_columns] = {};
    for (std::int64_t first = 0; first < k; first += depth) {
      load(x, y, m, n, k, top, left, first, slice_x, slice_y);
      __syncthreads();
#pragma unroll 4
      for (int t = 0; t < depth; ++t)
        take(slice_x + t * rows + row, slice_y + t * columns + column, sum, size);
      __syncthreads();
    }
    for (int r = 0; r < own_rows; ++r)
      for (int c = 0; c < own_columns; ++c) {
        const std::int64_t i = top + row + r * (rows / own_rows);
        const std::int64_t j = left + column + c * (columns / own_columns);
        if (i < m && j < n) leave(to, i * n + j, k, sum[r][c], size[r][c]);
      }
  }

 private:
  /// One k: own_rows values of a, own_columns of b, spread over the tile.
  __device__ static void take(const double* x, const double* y,
                              double (&sum)[own_rows][own_columns],
                              double (&size)[own_rows][own_columns]) {
    double of_x[own_rows], of_y[own_columns];
    for (int r = 0; r < own_rows; ++r) of_x[r] = x[r * (rows / own_rows)];
    for (int c = 0; c < own_columns; ++c) of_y[c] = y[c * (columns / own_columns)];
    for (int r = 0; r < own_rows; ++r)
      for (int c = 0; c < own_columns; ++c) {
        sum[r][c] = __fma_rn(of_x[r], of_y[c], sum[r][c]);
        size[r][c] = __fma_rn(fabs(of_x[r]), fabs(of_y[c]), size[r][c]);
      }
  }

  /// Slices of both operands, k by k; 0 beyond the edges, which adds nothing.
  __device__ static void load(const double* x, const double* y, std::int64_t m, std::int64_t n,
                              std::int64_t k, std::int64_t top, std::int64_t left,
                              std::int64_t first, double* slice_x, double* slice_y) {
    for (int e = static_cast<int>(threadIdx.x); e < rows * depth; e += threads) {
      const std::int64_t i = top + e / depth, t = first + e % depth;
      slice_x[e % depth * rows + e / depth] = i < m && t < k ? x[i * k + t] : 0;
    }
    for (int e = static_cast<int>(threadIdx.x); e < columns * depth; e += threads) {
      const std::int64_t t = first + e / columns, j = left + e % columns;
      slice_y[e] = t < k && j < n ? y[t * n + j] : 0;
    }
  }

  __device__ static void leave(const Results& to, std::int64_t e, std::int64_t k, double sum,
                               double size) {
    const ProductElement element(static_cast<double>(k), sum, size, to.compute);
    to.reference.exact[e] = element.exact;
    to.reference.gauge[e] = element.gauge;
    to.bound.value[e] = element.value;
    to.bound.radius[e] = element.bound;
  }
};
#endif

}  // namespace opbound
