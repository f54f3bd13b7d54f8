// Softmax and log-softmax over the last axis.
//
// The exact result does not change when a constant is subtracted from a row, so kernels subtract
// the maximum and mark it as a pivot: only the rounding of x - max counts, not where max came from
// (bounds/README.md 3.1).
#pragma once

#include "bounds/softmax_theorem.hpp"
#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"
#include "ops/online_sum.hpp"

namespace opbound {

struct softmax {
  static constexpr std::string_view name = "softmax";
  static constexpr std::string_view math =
      "y_j = exp(x_j) / sum_k exp(x_k); log = true: y_j = x_j - log sum_k exp(x_k)";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  struct Attributes {
    bool log = false;
  };
  static constexpr auto attributes = std::tuple{field("log", &Attributes::log)};

  enum { division, reciprocal, log_of_sum, log_of_softmax, online, stored_product };
  static constexpr std::array variants{
      Variant{"division", "exp(x - max) / S, S = sum exp(x - max)"},
      Variant{"reciprocal", "exp(x - max) * (1 / S)"},
      Variant{"log_of_sum", "(x - max) - log S"},
      Variant{"log_of_softmax",
              "log(exp(x - max) / S), which is -infinity where softmax underflows"},
      Variant{"online",
              "max and S in one pass, S rescaled where max grows; then as division or log_of_sum"},
      Variant{"stored_product",
              "division; backward t - y sum t, t = y dy rounded to the format of dx"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return variant == online || a.log == (variant == log_of_sum || variant == log_of_softmax);
  }

  struct forward;
  struct backward;
};

struct softmax::forward {
  enum { x, y };
  static constexpr std::array tensors{in("x", "rows", "n"), out("y", "rows", "n")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{y};
    static constexpr std::int64_t remembered(const Sizes& sizes) { return sizes[1]; }
    static constexpr int neighbours = 1;  // exp takes the time, and registers

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<softmax>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const R top = team.max(n, [&](std::int64_t j) { return io.get(x, first + j); });
      const R s = team.sum(n, [&](std::int64_t j) { return exp(io.get(x, first + j) - top); });
      if (!p.attributes.log) {
        team.map(
            n, [&](std::int64_t j) { io.put(y, first + j, exp(io.get(x, first + j) - top) / s); });
        return;
      }
      const R log_s = log(s);
      team.map(n, [&](std::int64_t j) {
        io.put(y, first + j, gauged_sum(io.get(x, first + j) - top, -log_s));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<softmax>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const bool subtracts_log = p.attributes.log && p.variant != log_of_softmax;
      const auto value = [&](std::int64_t j) { return io.get(x, first + j); };
      const auto remembered = team.remember(n, value);
      T top = from<T>(0.0), s = top;
      if (p.variant == online) {
        const Online<T> state = team.template reduce<OnlineSum>(
            n, [&](std::int64_t j) { return seen<T>(io.exact(x, first + j)); });
        top = from<T>(state.top);
        s = state.sum;
      } else {
        top = pivot(team.max(n, remembered));
      }
      const bool asks_for_powers = p.variant != online || !subtracts_log;
      const auto power = team.remember(asks_for_powers ? n : 0,
                                       [&](std::int64_t j) { return exp(remembered(j) - top); });
      if (p.variant != online) s = team.sum(n, power);
      const T factor = p.variant == reciprocal ? from<T>(1.0) / s : subtracts_log ? log(s) : s;
      const auto result = [&](std::int64_t j) {
        return subtracts_log                 ? (value(j) - top) - factor
               : p.variant == reciprocal     ? power(j) * factor
               : p.variant == log_of_softmax ? log(power(j) / factor)
                                             : power(j) / factor;
      };
      team.store(n, result, [&](std::int64_t j, T out) { io.put(y, first + j, out); });
    }

    /// The state after one element: nothing for a masked one, NaN for what has no exp(x - x).
    template <class T>
    OPBOUND_HD static Online<T> seen(double x) {
      if (x == -std::numeric_limits<double>::infinity()) return {};
      return {x, from<T>(x - x + 1)};
    }

    template <class Io>
    OPBOUND_HD static void theorem(const Problem<softmax>& p, const Io& io,
                                   const Arithmetic& arithmetic, std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const SoftmaxTheorem bound(
          n, [&](std::int64_t j) { return io.get(x, first + j); }, arithmetic);
      if (!bound.holds() || p.variant == log_of_softmax || p.variant == online) return;
      for (std::int64_t j = 0; j < n; ++j) {
        const double v = io.get(x, first + j);
        io.limit(y, first + j,
                 p.variant == log_of_sum   ? bound.of_log(v)
                 : p.variant == reciprocal ? bound.of_product(v)
                                           : bound.of_quotient(v));
      }
    }
  };
  using parts = Parts<rows>;
};

/// From the stored output: softmax: dx = y (dy - sum y dy); log-softmax: dx = dy - exp(y) sum dy.
struct softmax::backward {
  enum { y, dy, dx };
  static constexpr std::array tensors{saved("y", "rows", "n"), in("dy", "rows", "n"),
                                      out("dx", "rows", "n")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<softmax>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const bool log_form = p.attributes.log;
      const R total = team.sum(n, [&](std::int64_t j) {
        return log_form ? io.get(dy, first + j) : io.get(y, first + j) * io.get(dy, first + j);
      });
      team.map(n, [&](std::int64_t j) {
        const R out = io.get(y, first + j), g = io.get(dy, first + j);
        io.put(dx, first + j,
               log_form ? gauged_sum(g, -(exp(out) * total)) : out * gauged_sum(g, -total));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<softmax>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      if (p.attributes.log) {
        const T total = team.sum(n, [&](std::int64_t j) { return io.get(dy, first + j); });
        team.map(n, [&](std::int64_t j) {
          io.put(dx, first + j, io.get(dy, first + j) - exp(io.get(y, first + j)) * total);
        });
        return;
      }
      const bool stores = p.variant == stored_product;
      const auto product = [&](std::int64_t j) {
        const T t = io.get(y, first + j) * io.get(dy, first + j);
        return stores ? stored_in(io.format(dx), t) : t;
      };
      const T total = team.sum(n, product);
      team.map(n, [&](std::int64_t j) {
        if (stores) return io.put(dx, first + j, product(j) - io.get(y, first + j) * total);
        io.put(dx, first + j, io.get(y, first + j) * (io.get(dy, first + j) - total));
      });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
