// The gradient g (p - q) of each row. Included by ops/cross_entropy.hpp.
#pragma once

#include "ops/cross_entropy.hpp"

namespace opbound {

struct cross_entropy::backward {
  enum { logits, targets, lse, dloss, dreduced, scale, dlogits };
  static constexpr std::array tensors{
      in("logits", "rows", "vocab"),  index("targets", "vocab", "rows").or_else("ignore_index"),
      saved("lse", "rows"),           in("dloss", "rows"),
      in("dreduced", "one"),          scratch("scale", "one"),
      out("dlogits", "rows", "vocab")};

  /// The upstream gradient of every row that is not ignored: dreduced, for the mean over their
  /// number.
  struct upstream : blocks_along<>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{scale};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t) {
      if (p.attributes.reduction == Reduction::none) return;
      const std::int64_t counted = defined_count(p, io, targets);
      const bool divides = p.attributes.reduction == Reduction::mean && counted > 0;
      io.put(scale, 0,
             divides ? io.get(dreduced, 0) / from<R>(static_cast<double>(counted))
                     : io.get(dreduced, 0));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t) {
      if (p.attributes.reduction == Reduction::none) return;
      const std::int64_t counted = counted_targets(team, p, io, targets);
      const bool divides = p.attributes.reduction == Reduction::mean && counted > 0;
      team.map(1, [&](std::int64_t) {
        const T g = io.get(dreduced, 0);
        io.put(scale, 0, divides ? g / from<T>(static_cast<double>(counted)) : g);
      });
    }
  };

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{dlogits};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n, target = io.index(targets, row);
      const double top = team.max(n, [&](std::int64_t j) { return io.exact(logits, first + j); });
      const bool is_ignored = target == p.attributes.ignore_index;
      const bool has_gradient = top - top == 0 && 0 <= target && target <= n - 1;
      if (is_ignored || !has_gradient) {
        const R all = is_ignored ? from<R>(0.0) : not_a_number<R>();
        return team.map(n, [&](std::int64_t j) { io.put(dlogits, first + j, all); });
      }
      const bool has_one = p.attributes.reduction != Reduction::none;
      const R g = has_one ? io.get(scale, 0) : io.get(dloss, row);
      const auto power = [&](std::int64_t j) {
        return exp(io.get(logits, first + j) - from<R>(top));
      };
      const R sum = p.attributes.recompute ? team.sum(n, power) : from<R>(1.0);
      const R s = from<R>(p.attributes.label_smoothing);
      team.map(n, [&](std::int64_t j) {
        const R probability = p.attributes.recompute
                                  ? power(j) / sum
                                  : exp(io.get(logits, first + j) - io.get(lse, row));
        R q = s / from<R>(static_cast<double>(n));
        if (j == target) q = q + (from<R>(1.0) - s);
        io.put(dlogits, first + j, g * gauged_sum(probability, -q));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n, target = io.index(targets, row);
      const auto x = [&](std::int64_t j) { return io.get(logits, first + j); };
      const Target kind = kind_of(p, target);
      if (kind != Target::valid) {
        const T all = kind == Target::ignored ? from<T>(0.0) : not_a_number<T>();
        return team.map(n, [&](std::int64_t j) { io.put(dlogits, first + j, all); });
      }
      const bool has_one = p.attributes.reduction != Reduction::none;
      const T g = has_one ? io.get(scale, 0) : io.get(dloss, row);
      if (!p.attributes.recompute) {
        const T row_lse = io.get(lse, row);
        return team.map(n, [&](std::int64_t j) {
          const T d = x(j) - row_lse;
          io.put(dlogits, first + j, g * difference<T>(p, j == target, d, exp(d)));
        });
      }
      const Placed top =
          largest_of(team, n, [&](std::int64_t j) { return io.exact(logits, first + j); });
      if (!top.is_finite()) {
        return team.map(n, [&](std::int64_t j) { io.put(dlogits, first + j, not_a_number<T>()); });
      }
      const T peak = pivot(x(top.index));
      const T sum = team.sum(n, [&](std::int64_t j) { return exp(x(j) - peak); });
      const T factor = p.variant == reciprocal ? from<T>(1.0) / sum : sum;
      team.map(n, [&](std::int64_t j) {
        const T d = x(j) - peak, w = exp(d);
        const T probability = p.variant == reciprocal ? w * factor : w / factor;
        io.put(dlogits, first + j, g * difference<T>(p, j == target, d, probability));
      });
    }

    /// p_j - q_j; d = x_j - lse where lse is at hand.
    template <class T>
    OPBOUND_HD static T difference(const Problem<cross_entropy>& p, bool is_target, T d,
                                   T probability) {
      const T one = from<T>(1.0);
      const bool has_expm1 = p.variant == log1p_form;
      if (!(p.attributes.label_smoothing > 0))
        return !is_target ? probability : has_expm1 ? expm1(d) : probability - one;
      const T s = from<T>(p.attributes.label_smoothing);
      const T share = s / from<T>(static_cast<double>(p.sizes[1]));
      if (!is_target) return probability - share;
      return has_expm1 ? expm1(d) + (s - share) : probability - ((one - s) + share);
    }
  };
  using parts = Parts<upstream, rows>;
};

}  // namespace opbound
