// The logarithm of a row's sum of exponentials.
//
// Where the maximum is not finite, it is the result: -infinity of nothing but -infinity (or of an
// empty row), infinity, NaN. The gradient is the formula: NaN where x - y is infinity - infinity.
//
// y is stored in the output format and the backward pass reads it so: dx then has a relative error
// of u |y|, u that format's.
#pragma once

#include "bounds/softmax_theorem.hpp"
#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/exact_reductions.hpp"
#include "ops/log_sum.hpp"
#include "ops/number.hpp"

namespace opbound {

struct logsumexp {
  static constexpr std::string_view name = "logsumexp";
  static constexpr std::string_view math = "y = log sum_k exp(x_k); dx_j = dy exp(x_j - y)";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  struct Attributes {};
  static constexpr std::tuple<> attributes{};

  enum { shifted, log1p_form };
  static constexpr std::array variants{
      Variant{"shifted", "max + log sum exp(x - max)"},
      Variant{"log1p", "max + log1p(sum over all but the largest of exp(x - max))"}};

  struct forward;
  struct backward;
};

struct logsumexp::forward {
  enum { x, y };
  static constexpr std::array tensors{in("x", "rows", "n"), out("y", "rows")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<logsumexp>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const double top = team.max(n, [&](std::int64_t j) { return io.exact(x, first + j); });
      if (top - top != 0) return io.put(y, row, from<R>(top));
      const R sum =
          team.sum(n, [&](std::int64_t j) { return exp(io.get(x, first + j) - from<R>(top)); });
      io.put(y, row, gauged_sum(from<R>(top), log(sum)));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<logsumexp>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const auto value = [&](std::int64_t j) { return io.get(x, first + j); };
      const Placed top =
          largest_of(team, n, [&](std::int64_t j) { return io.exact(x, first + j); });
      if (!top.is_finite())
        return team.map(1, [&](std::int64_t) { io.put(y, row, from<T>(top.value)); });
      const LogSum<T> sum = log_sum_exp(team, n, value, top, p.variant == log1p_form);
      team.map(1, [&](std::int64_t) { io.put(y, row, sum.peak + sum.log_sum); });
    }

    /// bounds/README.md 3.1, for the variant that it was derived for.
    template <class Io>
    OPBOUND_HD static void theorem(const Problem<logsumexp>& p, const Io& io,
                                   const Arithmetic& arithmetic, std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const SoftmaxTheorem bound(
          n, [&](std::int64_t j) { return io.get(x, first + j); }, arithmetic);
      if (bound.holds() && p.variant == shifted) io.limit(y, row, bound.of_log_sum());
    }
  };
  using parts = Parts<rows>;
};

struct logsumexp::backward {
  enum { x, y, dy, dx };
  static constexpr std::array tensors{in("x", "rows", "n"), saved("y", "rows"), in("dy", "rows"),
                                      out("dx", "rows", "n")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<logsumexp>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      team.map(n, [&](std::int64_t j) {
        io.put(dx, first + j, io.get(dy, row) * exp(io.get(x, first + j) - io.get(y, row)));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<logsumexp>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const T g = io.get(dy, row), total = io.get(y, row);
      team.map(
          n, [&](std::int64_t j) { io.put(dx, first + j, g * exp(io.get(x, first + j) - total)); });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
