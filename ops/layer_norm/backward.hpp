// Layer normalisation, backward. Part of ops/layer_norm.hpp.
#pragma once

#include "ops/layer_norm.hpp"

namespace opbound {

/// With g = dy (weight_offset + gamma), xhat = (x - mean) rstd from the saved statistics:
/// dx = rstd (g - mean g - xhat mean(g xhat)), dgamma = sum dy xhat, dbeta = sum dy over rows.
struct layer_norm::backward {
  enum { x, gamma, mean, rstd, dy, dx, dgamma, dbeta };
  static constexpr std::array tensors{
      in("x", "rows", "n"),  in("gamma", "n"),       saved("mean", "rows"), saved("rstd", "rows"),
      in("dy", "rows", "n"), out("dx", "rows", "n"), out("dgamma", "n"),    out("dbeta", "n")};

  /// Kernel: xhat as it is recomputed.
  template <class T, class Io>
  OPBOUND_HD static T xhat_of(const Io& io, std::int64_t row, std::int64_t i) {
    return (io.get(x, i) - io.get(mean, row)) * io.get(rstd, row);
  }

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{dx};

    /// dx_j = rstd (g_j - sum_k g_k (1 + xhat_j xhat_k) / n)
    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<layer_norm>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const R mu = io.get(mean, row), r = io.get(rstd, row), size = from<R>(static_cast<double>(n));
      const auto upstream = [&](std::int64_t j) {
        const R g = io.get(dy, first + j);
        return p.attributes.affine == Affine::none
                   ? g
                   : (from<R>(p.attributes.weight_offset) + io.get(gamma, j)) * g;
      };
      const auto normalised = [&](std::int64_t j) { return r * (io.get(x, first + j) - mu); };
      const R g_sum = team.sum(n, upstream);
      const R projection = team.sum(n, [&](std::int64_t j) { return normalised(j) * upstream(j); });
      team.map(n, [&](std::int64_t j) {
        GaugedSum<R> sum = gauged_sum(upstream(j));
        sum.add(gauged_sum(-(g_sum / size), -(normalised(j) * projection / size)));
        io.put(dx, first + j, sum * r);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<layer_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const auto xhat = [&](std::int64_t j) { return xhat_of<T>(io, row, first + j); };
      // The gradient through a cast is cast itself.
      const auto g = [&](std::int64_t j) {
        const T upstream = io.get(dy, first + j);
        return a.affine == Affine::none
                   ? upstream
                   : stored_in(a.xhat_format,
                               upstream * norm_weight(a.weight_offset, io.get(gamma, j)));
      };
      const T g_sum = team.sum(n, g);
      const T dot = team.sum(n, [&](std::int64_t j) { return g(j) * xhat(j); });
      const T r = io.get(rstd, row);
      if (p.variant == scaled) {
        const T size = from<T>(static_cast<double>(n));
        team.map(n, [&](std::int64_t j) {
          io.put(dx, first + j, (((size * g(j)) - g_sum) - xhat(j) * dot) * (r / size));
        });
        return;
      }
      const T g_mean = norm_mean(p.variant == reciprocal, g_sum, n),
              dot_mean = norm_mean(p.variant == reciprocal, dot, n);
      team.map(n, [&](std::int64_t j) {
        io.put(dx, first + j, r * ((g(j) - g_mean) - xhat(j) * dot_mean));
      });
    }
  };

  struct columns : blocks_along<1>, sums_over<0> {
    static constexpr std::array<int, 2> outputs{dgamma, dbeta};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<layer_norm>& p, const Io& io,
                                  std::int64_t j) {
      const std::int64_t count = p.sizes[0], n = p.sizes[1];
      if (p.attributes.affine != Affine::none)
        io.put(dgamma, j, gauged_sum_of<R>(count, [&](std::int64_t i) {
                 const R xhat = (io.get(x, i * n + j) - io.get(mean, i)) * io.get(rstd, i);
                 return xhat * io.get(dy, i * n + j);
               }));
      if (p.attributes.affine == Affine::weight_and_bias)
        io.put(dbeta, j,
               gauged_sum_of<R>(count, [&](std::int64_t i) { return io.get(dy, i * n + j); }));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<layer_norm>& p, const Io& io,
                                  std::int64_t j) {
      const Attributes& a = p.attributes;
      const std::int64_t count = p.sizes[0], n = p.sizes[1];
      const auto put = [&](int to, T value) {
        team.map(1, [&](std::int64_t) { io.put(to, j, value); });
      };
      if (a.affine != Affine::none)
        put(dgamma, team.sum(count, [&](std::int64_t i) {
          return io.get(dy, i * n + j) * stored_in(a.xhat_format, xhat_of<T>(io, i, i * n + j));
        }));
      if (a.affine == Affine::weight_and_bias)
        put(dbeta, team.sum(count, [&](std::int64_t i) { return io.get(dy, i * n + j); }));
    }
  };
  using parts = Parts<rows, columns>;
};

}  // namespace opbound
