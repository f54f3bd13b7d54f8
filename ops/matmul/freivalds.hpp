// A product checked against a few random vectors (Freivalds 1979), with a derived rounding bound.
#pragma once

#include "bounds/tally.hpp"
#include "ops/io.hpp"
#include "ops/matmul.hpp"  // IWYU pragma: keep
#include "ops/op.hpp"

namespace opbound {

#ifdef __CUDACC__
/// d v against a (b v) for v of random signs, several at once, in fp64. Of row i, with K = k u (1 +
/// u) and tiny = k eta (1 + k u) as in certified.hpp, u_d and eta_d of the store of d:
///
///   |(d v)_i - (a b v)_i| <= K Q_i + n tiny + u_d D_i + n eta_d,
///   Q_i = sum_t |a_it| sum_j |b_tj|,  D_i = sum_j |d_ij|,
///
/// for every kernel of any order; fp64's own errors, at most (2 n + k) 2^-53 (Q_i + D_i), come on
/// top, twice, since Q and D are themselves such sums. A row with an element that is off by more
/// than this slack passes a vector with probability at most 1/2: whatever the other signs are, the
/// two signs of that element give values more than two slacks apart. `vectors` independent ones
/// miss it with probability 2^-vectors.
struct matmul::forward::elements::freivalds {
  static constexpr int vectors = quick_check_vectors;
  enum class RowVerdict { passes, fails, unjudged };

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

  /// What is to be said of row i after all steps. Of a row that is not finite, nothing, unless
  /// finite operands cannot have overflowed.
  __device__ static RowVerdict verdict(const Problem<matmul>& p, const Format& compute,
                                       const Format& stored, const double* memory, std::int64_t i) {
    const double n = static_cast<double>(p.sizes[1]), k = static_cast<double>(p.sizes[2]);
    const double u = compute.unit_roundoff();
    const double* const of_a = memory + (p.sizes[2] + i) * width;
    const double* const of_d = of_a + p.sizes[0] * width;
    const double q = of_a[vectors], size = of_d[vectors];
    const double tiny = k * compute.eta() * (1 + k * u);
    const double slack = detail::up(k * u * (1 + u) * q + n * tiny + stored.unit_roundoff() * size +
                                    n * stored.eta() + (2 * n + k) * 0x1p-52 * (q + size));
    if (!(slack < detail::infinite)) {
      const bool may_overflow =
          !(q * (1 + k * u) <= compute.largest()) || !(q * (1 + k * u) <= stored.largest());
      return may_overflow ? RowVerdict::unjudged : RowVerdict::fails;
    }
    for (int v = 0; v < vectors; ++v)
      if (!(fabs(of_d[v] - of_a[v]) <= slack)) return RowVerdict::fails;
    return RowVerdict::passes;
  }

 private:
  static constexpr int width = vectors + 1;
};
#endif

}  // namespace opbound
