// Matrix product d = alpha (a b) + beta c + bias, with scales of rows and columns for fp8.
//
// a and b are read through their strides, so a transposed view is the other layout: NN, NT and TN
// are one kernel. Its sum runs over k = 0, 1, 2, ... by fused multiply-adds in the compute format,
// which bounds/README.md 6.2 (G6) bounds by K u sum |a b|; the device's tiled body keeps that
// order.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/matmul/unit.hpp"
#include "ops/matmul/unit_tree.hpp"
#include "ops/number.hpp"

namespace opbound {

struct matmul {
  static constexpr std::string_view name = "matmul";
  static constexpr std::string_view math =
      "d_ij = alpha s_i t_j sum_k a_ik b_kj + beta c_ij + bias_j, "
      "s = scale_a and t = scale_b with scaled = true";
  static constexpr std::array<std::string_view, 3> dims{"m", "n", "k"};

  struct Attributes {
    double alpha = 1;
    double beta = 0;
    bool bias = false;
    bool scaled = false;
    std::int64_t splits = 4;  ///< of variant split_k
  };
  static constexpr auto attributes =
      std::tuple{field("alpha", &Attributes::alpha), field("beta", &Attributes::beta),
                 field("bias", &Attributes::bias), field("scaled", &Attributes::scaled),
                 field("splits", &Attributes::splits)};

  enum { sequential, split_k, scales_first, volta, ampere, ada, hopper, blackwell, hopper_mma };
  static constexpr std::array variants{
      Variant{"sequential", "one sum over k by fused multiply-adds"},
      Variant{"split_k", "k in `splits` equal parts, each summed so, then their sums in order"},
      Variant{"scales_first",
              "sequential; the sum times (s_i t_j), rounded before, not s_i, then t_j"},
      Variant{"volta", "matrix unit: 4 products and the sum so far, cut to 23 bits"},
      Variant{"ampere", "8 products and 24 bits; tf32, and fp32 cut to it, 4 products"},
      Variant{"ada", "as ampere; fp8 16 products, 13 bits, sums of 14 digits"},
      Variant{"hopper", "16 products, 25 bits; tf32 8; fp8 32, 13 bits, sums of 14 digits"},
      Variant{"blackwell", "as hopper; fp8 32 products, 25 bits"},
      Variant{"hopper_mma",
              "fp8 by mma.sync there: 2 steps of 16 from 0, 25 bits; added up in fp32"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return variant != scales_first || a.scaled;
  }
  /// Is there such a unit? All of them add in fp32, or in less.
  static constexpr bool fits(const Precision& p, int variant) {
    return variant < volta || (p.compute == fp32 && unit(variant, p.storage, p.storage).block > 0);
  }
  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    if (tensor == "c" || tensor == "dc") return a.beta != 0;
    if (tensor == "bias" || tensor == "dbias") return a.bias;
    if (tensor == "scale_a" || tensor == "scale_b") return a.scaled;
    return true;
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes&) {
    if (a.alpha - a.alpha != 0 || a.beta - a.beta != 0) return "finite alpha and beta";
    return a.splits < 1 || a.splits > 1 << 16 ? "splits from 1 to 65536" : "";
  }

  /// Who feeds fp32 to a unit that cuts it to tf32 has to say so.
  static constexpr bool is_assumed(const Precision& p, int variant) {
    return fits(p, variant) && (variant < volta || p.storage != fp32);
  }

  struct forward;
  struct backward;

 private:
  /// The variant's matrix unit for factors that are stored so, or none.
  OPBOUND_HD static constexpr MatrixUnit unit(int variant, const Format& a, const Format& b) {
    if (variant < volta) return {0, 0, 0};
    const auto generation = static_cast<Generation>(variant - volta);
    const MatrixUnit of_a = matrix_unit(generation, factor_format(a));
    const MatrixUnit of_b = matrix_unit(generation, factor_format(b));
    return of_a.block < of_b.block ? of_a : of_b;
  }

  /// The sum over k in the variant's order, of factors that are stored in these formats.
  template <class T, class Team, class A, class B>
  OPBOUND_HD static T product(const Team& team, const Problem<matmul>& p, const Format& fa,
                              const Format& fb, std::int64_t k, A a, B b) {
    if (const MatrixUnit u = unit(p.variant, fa, fb); u.block > 0) {
      if constexpr (requires { team.tree; })  // on the host only
        if (const SumTree* tree = detail::unit_tree(team, u, k))
          return detail::UnitSumAlong<T>::run(*tree, u, fa, fb, a, b);
      detail::UnitSum<T> sum;
      sum.run(u, fa, fb, k, a, b);
      return sum.value;
    }
    if (p.variant != split_k) return team.dot(k, a, b);
    const std::int64_t parts = p.attributes.splits, each_part = (k + parts - 1) / parts;
    const std::int64_t used = each_part == 0 ? 0 : (k + each_part - 1) / each_part;
    return team.serial_sum(used, [&](std::int64_t s) {
      const std::int64_t first = s * each_part, left = k - first;
      return team.dot(
          left < each_part ? left : each_part, [&](std::int64_t i) { return a(first + i); },
          [&](std::int64_t i) { return b(first + i); });
    });
  }
};

struct matmul::forward {
  enum { a, b, c, bias, scale_a, scale_b, d };
  static constexpr std::array tensors{in("a", "m", "k"),
                                      in("b", "k", "n"),
                                      in("c", "m", "n"),
                                      in("bias", "n"),
                                      in("scale_a", "m").as("fp32"),
                                      in("scale_b", "n").as("fp32"),
                                      out("d", "m", "n")};

  struct elements : elementwise_blocks<0, 1>, sums_over<2> {
    static constexpr std::array<int, 1> outputs{d};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t n = p.sizes[1], k = p.sizes[2];
      each(team, p.sizes, block, [&](std::int64_t e) {
        const std::int64_t i = e / n, j = e % n;
        const GaugedSum<R> sum = gauged_sum_of<R>(
            k, [&](std::int64_t t) { return io.get(a, i * k + t) * io.get(b, t * n + j); });
        R factor = from<R>(p.attributes.alpha);
        if (p.attributes.scaled) factor = factor * io.get(scale_a, i) * io.get(scale_b, j);
        GaugedSum<R> value = factor * sum;
        if (p.attributes.beta != 0) value.add(from<R>(p.attributes.beta) * io.get(c, e));
        if (p.attributes.bias) value.add(io.get(bias, j));
        io.put(d, e, value);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t n = p.sizes[1], k = p.sizes[2];
      each(team, p.sizes, block, [&](std::int64_t e) {
        const std::int64_t i = e / n, j = e % n;
        const T sum = product<T>(
            team, p, io.format(a), io.format(b), k,
            [&](std::int64_t t) { return io.get(a, i * k + t); },
            [&](std::int64_t t) { return io.get(b, t * n + j); });
        io.put(d, e, finished<T>(p, io, i, j, sum));
      });
    }

    struct form;       // ops/matmul/form.hpp
    struct tile;       // ops/matmul/tile.hpp
    struct host_tile;  // ops/matmul/host_tile.hpp
    struct certified;  // ops/matmul/certified.hpp
    struct freivalds;  // ops/matmul/freivalds.hpp

    /// The epilogue: ((alpha sum) s_i) t_j + beta c_ij + bias_j, a factor of 1 left out.
    template <class T, class Io>
    OPBOUND_HD static T finished(const Problem<matmul>& p, const Io& io, std::int64_t i,
                                 std::int64_t j, T value) {
      if (p.attributes.alpha != 1) value = from<T>(p.attributes.alpha) * value;
      if (p.attributes.scaled)
        value = p.variant == scales_first ? value * (io.get(scale_a, i) * io.get(scale_b, j))
                                          : (value * io.get(scale_a, i)) * io.get(scale_b, j);
      if (p.attributes.beta != 0)
        value = fma(from<T>(p.attributes.beta), io.get(c, i * p.sizes[1] + j), value);
      if (p.attributes.bias) value = value + io.get(bias, j);
      return value;
    }
  };
  using parts = Parts<elements>;
};

/// da = alpha s (dd t) b^T, db = alpha a^T (dd s) t, dc = beta dd, dbias = the columns' sums.
struct matmul::backward {
  /// A gradient times a scale is no number that a unit takes: then the sum is an ordinary one.
  OPBOUND_HD static Format scaled_format(const Problem<matmul>& p, const Format& f) {
    constexpr Format none = fp64;
    return p.attributes.scaled ? none : f;
  }

  enum { a, b, scale_a, scale_b, dd, da, db, dc, dbias };
  static constexpr std::array tensors{in("a", "m", "k"),
                                      in("b", "k", "n"),
                                      in("scale_a", "m").as("fp32"),
                                      in("scale_b", "n").as("fp32"),
                                      in("dd", "m", "n"),
                                      out("da", "m", "k"),
                                      out("db", "k", "n"),
                                      out("dc", "m", "n"),
                                      out("dbias", "n")};

  struct left : elementwise_blocks<0, 2>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{da};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t n = p.sizes[1], k = p.sizes[2];
      each(team, p.sizes, block, [&](std::int64_t e) {
        const std::int64_t i = e / k, t = e % k;
        const bool scaled = p.attributes.scaled;
        const GaugedSum<R> sum = gauged_sum_of<R>(n, [&](std::int64_t j) {
          const R term = io.get(dd, i * n + j) * io.get(b, t * n + j);
          return scaled ? term * io.get(scale_b, j) : term;
        });
        const R factor =
            scaled ? from<R>(p.attributes.alpha) * io.get(scale_a, i) : from<R>(p.attributes.alpha);
        io.put(da, e, factor * sum);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t n = p.sizes[1], k = p.sizes[2];
      each(team, p.sizes, block, [&](std::int64_t e) {
        const std::int64_t i = e / k, t = e % k;
        const T sum = product<T>(
            team, p, scaled_format(p, io.format(dd)), io.format(b), n,
            [&](std::int64_t j) { return upstream<T>(p, io, i, j); },
            [&](std::int64_t j) { return io.get(b, t * n + j); });
        io.put(da, e, finished<T>(p, io, i, sum));
      });
    }

    template <class T, class Io>
    OPBOUND_HD static T upstream(const Problem<matmul>& p, const Io& io, std::int64_t i,
                                 std::int64_t j) {
      const T g = io.get(dd, i * p.sizes[1] + j);
      return p.attributes.scaled ? g * io.get(scale_b, j) : g;
    }
    template <class T, class Io>
    OPBOUND_HD static T finished(const Problem<matmul>& p, const Io& io, std::int64_t i, T value) {
      if (p.attributes.alpha != 1) value = from<T>(p.attributes.alpha) * value;
      return p.attributes.scaled ? value * io.get(scale_a, i) : value;
    }

    struct form;
    struct host_tile;
  };

  struct right : elementwise_blocks<2, 1>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{db};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t n = p.sizes[1], k = p.sizes[2];
      each(team, p.sizes, block, [&](std::int64_t e) {
        const std::int64_t t = e / n, j = e % n;
        const bool scaled = p.attributes.scaled;
        const GaugedSum<R> sum = gauged_sum_of<R>(p.sizes[0], [&](std::int64_t i) {
          const R term = io.get(a, i * k + t) * io.get(dd, i * n + j);
          return scaled ? term * io.get(scale_a, i) : term;
        });
        const R factor =
            scaled ? from<R>(p.attributes.alpha) * io.get(scale_b, j) : from<R>(p.attributes.alpha);
        io.put(db, e, factor * sum);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t n = p.sizes[1], k = p.sizes[2];
      each(team, p.sizes, block, [&](std::int64_t e) {
        const std::int64_t t = e / n, j = e % n;
        const T sum = product<T>(
            team, p, io.format(a), scaled_format(p, io.format(dd)), p.sizes[0],
            [&](std::int64_t i) { return io.get(a, i * k + t); },
            [&](std::int64_t i) { return upstream<T>(p, io, i, j); });
        io.put(db, e, finished<T>(p, io, j, sum));
      });
    }

    template <class T, class Io>
    OPBOUND_HD static T upstream(const Problem<matmul>& p, const Io& io, std::int64_t i,
                                 std::int64_t j) {
      const T g = io.get(dd, i * p.sizes[1] + j);
      return p.attributes.scaled ? g * io.get(scale_a, i) : g;
    }
    template <class T, class Io>
    OPBOUND_HD static T finished(const Problem<matmul>& p, const Io& io, std::int64_t j, T value) {
      if (p.attributes.alpha != 1) value = from<T>(p.attributes.alpha) * value;
      return p.attributes.scaled ? value * io.get(scale_b, j) : value;
    }

    struct form;
    struct host_tile;
  };

  /// dc and dbias, a column of dd each block.
  struct columns : blocks_along<1>, sums_over<0> {
    static constexpr std::array<int, 2> outputs{dc, dbias};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t j) {
      const std::int64_t m = p.sizes[0], n = p.sizes[1];
      if (p.attributes.beta != 0)
        team.map(m, [&](std::int64_t i) {
          io.put(dc, i * n + j, from<R>(p.attributes.beta) * io.get(dd, i * n + j));
        });
      if (!p.attributes.bias) return;
      io.put(dbias, j, gauged_sum_of<R>(m, [&](std::int64_t i) { return io.get(dd, i * n + j); }));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<matmul>& p, const Io& io,
                                  std::int64_t j) {
      const std::int64_t m = p.sizes[0], n = p.sizes[1];
      if (p.attributes.beta != 0)
        team.map(m, [&](std::int64_t i) {
          io.put(dc, i * n + j, from<T>(p.attributes.beta) * io.get(dd, i * n + j));
        });
      if (!p.attributes.bias) return;
      const T sum = team.sum(m, [&](std::int64_t i) { return io.get(dd, i * n + j); });
      team.map(1, [&](std::int64_t) { io.put(dbias, j, sum); });
    }
  };
  using parts = Parts<left, right, columns>;
};

}  // namespace opbound

#include "ops/matmul/certified.hpp"  // IWYU pragma: export
#include "ops/matmul/freivalds.hpp"  // IWYU pragma: export
#include "ops/matmul/host_tile.hpp"  // IWYU pragma: export
#include "ops/matmul/tile.hpp"       // IWYU pragma: export
