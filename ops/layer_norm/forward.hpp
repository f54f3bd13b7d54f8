// Layer normalisation, forward. Part of ops/layer_norm.hpp.
#pragma once

#include "ops/layer_norm.hpp"
#include "ops/layer_norm/theorem.hpp"
#include "ops/layer_norm/welford.hpp"

namespace opbound {

struct layer_norm::forward {
  enum { x, gamma, beta, y, mean, rstd };
  static constexpr std::array tensors{in("x", "rows", "n"),
                                      in("gamma", "n"),
                                      in("beta", "n"),
                                      out("y", "rows", "n"),
                                      out("mean", "rows").as("compute"),
                                      out("rstd", "rows").as("compute")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 3> outputs{y, mean, rstd};
    static constexpr std::int64_t remembered(const Sizes& sizes) { return sizes[1]; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<layer_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const R size = from<R>(static_cast<double>(n));
      const GaugedSum<R> average =
          gauged_sum_of<R>(n, [&](std::int64_t j) { return io.get(x, first + j); }) / size;
      const R mu = average.value;
      const R squares = team.sum(n, [&](std::int64_t j) {
        const R d = io.get(x, first + j) - mu;
        return d * d;
      });
      const R sigma = sqrt(squares / size + from<R>(a.eps));
      io.put(mean, row, average);
      io.put(rstd, row, from<R>(1.0) / sigma);
      team.map(n, [&](std::int64_t j) {
        R out = (io.get(x, first + j) - mu) / sigma;
        if (a.affine != Affine::none) out = out * (from<R>(a.weight_offset) + io.get(gamma, j));
        io.put(y, first + j,
               a.affine == Affine::weight_and_bias ? gauged_sum(out, io.get(beta, j))
                                                   : gauged_sum(out));
      });
    }

    /// A row's statistics as a kernel has them: (x - pivot) - shift is x - mean.
    template <class T>
    struct Statistics {
      T mean, variance, pivot, shift;
    };

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<layer_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const auto load = team.remember(n, [&](std::int64_t j) { return io.get(x, first + j); });
      const Statistics<T> s = statistics<T>(team, p.variant, io, n, first, load);
      const T eps = stored_in(a.eps_format, from<T>(a.eps));
      const T factor = rsqrt(s.variance + eps);  // 1 / sqrt errs less than CUDA's rsqrt may
      with_storing(a.xhat_format, [&](const auto& stored) {
        const auto value = [&](std::int64_t j) {
          const T centred = load(j) - s.pivot;
          const T c = p.variant == recentred ? centred - s.shift : centred;
          T out = stored(c * factor);
          if (a.affine != Affine::none) out = out * norm_weight(a.weight_offset, io.get(gamma, j));
          if (a.affine == Affine::weight_and_bias) out = out + io.get(beta, j);
          return out;
        };
        team.store(n, value, [&](std::int64_t j, T out) { io.put(y, first + j, out); });
      });
      team.map(1, [&](std::int64_t) {
        io.put(mean, row, s.mean);
        io.put(rstd, row, factor);
      });
    }

    /// An infinite mean is no pivot, and merging with it gives NaN where the mean is infinite: such
    /// rows take the plain way.
    template <class T, class Team, class Io, class Load>
    OPBOUND_HD static Statistics<T> statistics(const Team& team, int variant, const Io& io,
                                               std::int64_t n, std::int64_t first, Load load) {
      if ((variant == welford || variant == recentred) &&
          !team.any(n, [&](std::int64_t j) { return !io.is_finite(x, first + j); }))
        return variant == welford ? merged<T>(team, n, load) : recentred_twice<T>(team, n, load);
      return summed<T>(team, variant, n, load);
    }

    template <class T, class Team, class Load>
    OPBOUND_HD static Statistics<T> merged(const Team& team, std::int64_t n, Load load) {
      const Moments<T> m = team.template reduce<MergeMoments>(n, [&](std::int64_t j) {
        return Moments<T>{1, load(j), from<T>(0.0)};
      });
      return {m.mean, norm_mean(false, m.squares, n), m.mean, m.mean};
    }

    /// Two passes, or one.
    template <class T, class Team, class Load>
    OPBOUND_HD static Statistics<T> summed(const Team& team, int variant, std::int64_t n,
                                           Load load) {
      const T m = norm_mean(variant == reciprocal, team.sum(n, load), n);
      if (variant == one_pass) {
        const T square =
            norm_mean(variant == reciprocal,
                      team.sum(n, [&](std::int64_t j) { return load(j) * load(j); }), n);
        return {m, max(square - m * m, from<T>(0.0)), m, m};
      }
      const T squares = team.sum(n, [&](std::int64_t j) {
        const T c = load(j) - m;
        return c * c;
      });
      return {m, norm_mean(variant == reciprocal, squares, n), m, m};
    }

    /// Whatever the pivot is, mean (x - pivot) is what it is off by.
    template <class T, class Team, class Load>
    OPBOUND_HD static Statistics<T> recentred_twice(const Team& team, std::int64_t n, Load load) {
      const T m = pivot(norm_mean(false, team.sum(n, load), n));
      const T off = norm_mean(false, team.sum(n, [&](std::int64_t j) { return load(j) - m; }), n);
      const T squares = team.sum(n, [&](std::int64_t j) {
        const T c = (load(j) - m) - off;
        return c * c;
      });
      return {m + off, norm_mean(false, squares, n), m, off};
    }

    /// LayerNormTheorem, then: xhat rounded to its format; weight: |w' - w| <= u |w| if it is a
    /// sum; y = fl(fl(w xhat) + beta).
    template <class Io>
    OPBOUND_HD static void theorem(const Problem<layer_norm>& p, const Io& io,
                                   const Arithmetic& arithmetic, std::int64_t row) {
      if (p.variant != two_pass && p.variant != reciprocal && p.variant != scaled) return;
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const LayerNormTheorem bound(
          n, [&](std::int64_t j) { return io.get(x, first + j); },
          {io.bound(mean, row), a.eps, a.eps_format, p.variant == reciprocal}, arithmetic);
      if (!bound.holds()) return;
      io.limit(rstd, row, bound.of_rstd());
      for (std::int64_t j = 0; j < n; ++j) {
        const double v = io.get(x, first + j);
        const bool has_weight = a.affine != Affine::none;
        const double w = has_weight ? a.weight_offset + io.get(gamma, j) : 1;
        const double b = a.affine == Affine::weight_and_bias ? io.get(beta, j) : 0;
        io.limit(y, first + j, error_of_output(a, bound, v, w, b, arithmetic));
      }
    }

    OPBOUND_HD static double error_of_output(const Attributes& a, const LayerNormTheorem& bound,
                                             double v, double w, double b,
                                             const Arithmetic& arithmetic) {
      const double u = arithmetic.u, eta = arithmetic.eta;
      auto [size, error] = bound.normalised(v);
      const Format& f = a.xhat_format;
      if (f.unit_roundoff() > u || f.eta() > eta) {
        if (!(size + error < f.largest() / 2)) return detail::infinite;
        error += f.unit_roundoff() * (size + error) + f.eta();
      }
      if (a.affine == Affine::none) return error;
      const double weight_u = a.weight_offset == 0 ? 0 : u;
      const double grown = u + weight_u + u * weight_u;
      error = (abs(w) * (error * (1 + grown) + size * grown) + eta) * LayerNormTheorem::slack;
      // nothing may overflow, neither the product nor the sum
      const double largest = 4 * (1 - u) / (eta / u);
      if (!(abs(w) * size + error < largest)) return detail::infinite;
      if (a.affine == Affine::weight) return error;
      const double exact = abs(w * bound.value(v) + b);
      error = (error * (1 + u) + u * exact) * LayerNormTheorem::slack;
      return exact + error < largest ? error : detail::infinite;
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
