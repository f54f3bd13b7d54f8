// Root mean square normalisation (Zhang and Sennrich 2019) over the last axis, forward and
// backward.
//
// Conditioning (bounds/README.md 2.6): the mean square is a sum of terms of one sign, so that xhat
// has a small relative error whatever the row. The running bound sees that and needs no theorem.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/normalization.hpp"
#include "ops/number.hpp"

namespace opbound {

struct rms_norm {
  static constexpr std::string_view name = "rms_norm";
  static constexpr std::string_view math =
      "y_j = xhat_j (weight_offset + gamma_j), xhat_j = x_j rstd, rstd = 1 / sqrt(mean x^2 + eps)";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  struct Attributes {
    /// The definition adds eps as it stands here: what holding it in some format does to it is the
    /// kernel's error, and its bound pays for it.
    double eps = 1e-6;
    double weight_offset = 0;   ///< 1: the weight is 1 + gamma
    Format eps_format = fp64;   ///< what eps is held in, beside the compute format
    Format xhat_format = fp64;  ///< what xhat is rounded to before the weight multiplies it
    bool weight = true;         ///< is there a gamma?
  };
  static constexpr auto attributes = std::tuple{
      field("eps", &Attributes::eps), field("weight_offset", &Attributes::weight_offset),
      field("eps_format", &Attributes::eps_format), field("xhat_format", &Attributes::xhat_format),
      field("weight", &Attributes::weight)};

  enum { division, reciprocal, scaled, from_x };
  static constexpr std::array variants{
      Variant{"division", "(sum x^2) / n; dx = rstd (g - xhat (sum g xhat) / n)"},
      Variant{"reciprocal", "every mean a product with 1/n"},
      Variant{"scaled", "dx = (n g - xhat sum(g xhat)) (rstd / n)"},
      Variant{"from_x", "dx = rstd (g - x (rstd^2 (sum g x) / n))"}};
  static constexpr std::string_view refuses(const Attributes& a, const Sizes&) {
    return is_from(0, a.eps) ? "" : "eps of at least 0";
  }

  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    return a.weight || (tensor != "gamma" && tensor != "dgamma");
  }

  struct forward;
  struct backward;
};

struct rms_norm::forward {
  enum { x, gamma, y, rstd };
  static constexpr std::array tensors{in("x", "rows", "n"), in("gamma", "n"), out("y", "rows", "n"),
                                      out("rstd", "rows").as("compute")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 2> outputs{y, rstd};
    static constexpr std::int64_t remembered(const Sizes& sizes) { return sizes[1]; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<rms_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const R squares = team.sum(n, [&](std::int64_t j) {
        const R v = io.get(x, first + j);
        return v * v;
      });
      const R root = sqrt(squares / from<R>(static_cast<double>(n)) + from<R>(a.eps));
      io.put(rstd, row, from<R>(1.0) / root);
      team.map(n, [&](std::int64_t j) {
        const R xhat = io.get(x, first + j) / root;
        io.put(y, first + j,
               a.weight ? xhat * (from<R>(a.weight_offset) + io.get(gamma, j)) : xhat);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<rms_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const auto load = team.remember(n, [&](std::int64_t j) { return io.get(x, first + j); });
      const T squares = team.sum(n, [&](std::int64_t j) { return load(j) * load(j); });
      const T eps = stored_in(a.eps_format, from<T>(a.eps));
      const T factor = rsqrt(norm_mean(p.variant == reciprocal, squares, n) + eps);
      with_storing(a.xhat_format, [&](const auto& stored) {
        const auto value = [&](std::int64_t j) {
          const T xhat = stored(load(j) * factor);
          return a.weight ? xhat * norm_weight(a.weight_offset, io.get(gamma, j)) : xhat;
        };
        team.store(n, value, [&](std::int64_t j, T out) { io.put(y, first + j, out); });
      });
      team.map(1, [&](std::int64_t) { io.put(rstd, row, factor); });
    }
  };
  using parts = Parts<rows>;
};

/// With g = dy (weight_offset + gamma), xhat = x rstd from the saved rstd:
/// dx = rstd (g - xhat mean(g xhat)), dgamma = sum dy xhat over rows.
struct rms_norm::backward {
  enum { x, gamma, rstd, dy, dx, dgamma };
  static constexpr std::array tensors{in("x", "rows", "n"),   in("gamma", "n"),
                                      saved("rstd", "rows"),  in("dy", "rows", "n"),
                                      out("dx", "rows", "n"), out("dgamma", "n")};

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<rms_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const R r = io.get(rstd, row);
      const auto upstream = [&](std::int64_t j) {
        const R g = io.get(dy, first + j);
        return a.weight ? (from<R>(a.weight_offset) + io.get(gamma, j)) * g : g;
      };
      const auto normalised = [&](std::int64_t j) { return r * io.get(x, first + j); };
      const R projection = team.sum(n, [&](std::int64_t j) {
        return normalised(j) * upstream(j);
      }) / from<R>(static_cast<double>(n));
      team.map(n, [&](std::int64_t j) {
        io.put(dx, first + j, gauged_sum(upstream(j), -(normalised(j) * projection)) * r);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<rms_norm>& p, const Io& io,
                                  std::int64_t row) {
      const Attributes& a = p.attributes;
      const std::int64_t n = p.sizes[1], first = row * n;
      const T r = io.get(rstd, row);
      // The gradient through a cast is cast itself.
      const auto g = [&](std::int64_t j) {
        const T upstream = io.get(dy, first + j);
        return a.weight ? stored_in(a.xhat_format,
                                    upstream * norm_weight(a.weight_offset, io.get(gamma, j)))
                        : upstream;
      };
      const auto along = [&](std::int64_t j) {
        const T v = io.get(x, first + j);
        return p.variant == from_x ? v : v * r;
      };
      const T dot = team.sum(n, [&](std::int64_t j) { return g(j) * along(j); });
      const T size = from<T>(static_cast<double>(n));
      const T factor = p.variant == scaled   ? dot
                       : p.variant == from_x ? (r * r) * (dot / size)
                                             : norm_mean(p.variant == reciprocal, dot, n);
      team.map(n, [&](std::int64_t j) {
        io.put(dx, first + j,
               p.variant == scaled ? ((size * g(j)) - along(j) * factor) * (r / size)
                                   : r * (g(j) - along(j) * factor));
      });
    }
  };

  struct columns : blocks_along<1>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{dgamma};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<rms_norm>& p, const Io& io,
                                  std::int64_t j) {
      if (!p.attributes.weight) return;
      const std::int64_t count = p.sizes[0], n = p.sizes[1];
      io.put(dgamma, j, gauged_sum_of<R>(count, [&](std::int64_t i) {
               return (io.get(x, i * n + j) * io.get(dy, i * n + j)) * io.get(rstd, i);
             }));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<rms_norm>& p, const Io& io,
                                  std::int64_t j) {
      const Attributes& a = p.attributes;
      if (!a.weight) return;
      const std::int64_t n = p.sizes[1];
      const T total = team.sum(p.sizes[0], [&](std::int64_t i) {
        const T xhat = io.get(x, i * n + j) * io.get(rstd, i);
        return io.get(dy, i * n + j) * stored_in(a.xhat_format, xhat);
      });
      team.map(1, [&](std::int64_t) { io.put(dgamma, j, total); });
    }
  };
  using parts = Parts<rows, columns>;
};

}  // namespace opbound
