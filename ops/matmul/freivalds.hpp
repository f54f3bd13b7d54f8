// A product checked against a few random vectors (Freivalds 1979), with a derived rounding bound.
#pragma once

#include "bounds/product.hpp"
#include "ops/hash.hpp"
#include "ops/io.hpp"
#include "ops/matmul.hpp"  // IWYU pragma: keep
#include "ops/op.hpp"

namespace opbound {

#ifdef __CUDACC__
/// d v against a (b v) for v of random signs, several at once, in fp64: bounds/product.hpp's rows.
/// A row that is wrong enough is missed with probability 2^-vectors. `memory`: for each row of b,
/// of a and of d its sums with the vectors, then a magnitude.
struct matmul::forward::elements::freivalds {
  static constexpr int vectors = quick_check_vectors;

  static bool serves(const Problem<matmul>& p) { return certified::serves(p); }
  /// Doubles of memory: of b, of a and of d, for each of their rows the sums and a magnitude.
  static std::int64_t memory(const Sizes& s) { return (s[2] + 2 * s[0]) * width; }

  /// Sums of one row with the vectors, and the sum of its magnitudes times `weight`s.
  struct RowSums {
    double sum[vectors] = {};
    double size = 0;
  };
  struct AddRows {
    __device__ static RowSums combine(RowSums x, const RowSums& y) {
      for (int v = 0; v < vectors; ++v) x.sum[v] += y.sum[v];
      x.size += y.size;
      return x;
    }
    template <class T>
    __device__ static RowSums empty() {
      return {};
    }
  };

  /// step 0: b v; 1: a (b v); 2: d v. One thread block a row.
  template <class Team>
  __device__ static void run(const Team& team, const Problem<matmul>& p, const Bindings& tensors,
                             double* memory, std::uint64_t seed, int step, std::int64_t row) {
    const std::int64_t m = p.sizes[0], n = p.sizes[1], k = p.sizes[2];
    const double* const of_b = memory;
    const int tensor = step == 0 ? b : step == 1 ? a : d;
    const std::int64_t length = step == 1 ? k : n;
    const RowSums sums = team.template reduce<AddRows>(length, [&](std::int64_t j) {
      const double x = tensors.load_at(tensor, row * length + j);
      RowSums term;
      if (step == 1) {
        for (int v = 0; v < vectors; ++v) term.sum[v] = x * of_b[j * width + v];
        term.size = fabs(x) * of_b[j * width + vectors];
        return term;
      }
      const std::uint64_t signs = element_hash(j, seed);
      for (int v = 0; v < vectors; ++v) term.sum[v] = (signs >> v & 1) != 0 ? -x : x;
      term.size = fabs(x);
      return term;
    });
    double* const to = memory + ((step == 0 ? 0 : step == 1 ? k : k + m) + row) * width;
    team.map(1, [&](std::int64_t) {
      for (int v = 0; v < vectors; ++v) to[v] = sums.sum[v];
      to[vectors] = sums.size;
    });
  }

  static std::int64_t rows_of(const Sizes& s, int step) { return step == 0 ? s[2] : s[0]; }

  /// What all vectors together say of row i after all steps.
  __device__ static RowVerdict verdict(const Problem<matmul>& p, const Format& compute,
                                       const Format& stored, const double* memory, std::int64_t i) {
    const double* const of_a = memory + (p.sizes[2] + i) * width;
    const double* const of_d = of_a + p.sizes[0] * width;
    const ProductRow row(static_cast<double>(p.sizes[2]), static_cast<double>(p.sizes[1]),
                         of_a[vectors], of_d[vectors], compute, stored);
    RowVerdict all = RowVerdict::passes;
    for (int v = 0; v < vectors; ++v) {
      const RowVerdict one = row.of(of_d[v], of_a[v]);
      if (one != RowVerdict::passes) all = one;
    }
    return all;
  }

 private:
  static constexpr int width = vectors + 1;
};
#endif

}  // namespace opbound
