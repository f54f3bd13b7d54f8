// The loss of each row, and their sum or mean. Included by ops/cross_entropy.hpp.
#pragma once

#include "ops/cross_entropy.hpp"

namespace opbound {

struct cross_entropy::forward {
  enum { logits, targets, token_loss, loss, lse, reduced };
  static constexpr std::array tensors{
      in("logits", "rows", "vocab"),    index("targets", "vocab", "rows").or_else("ignore_index"),
      scratch("token_loss", "rows"),    out("loss", "rows").as("compute"),
      out("lse", "rows").as("compute"), out("reduced", "one")};

  struct rows : row_blocks {
    static constexpr std::array<int, 3> outputs{token_loss, loss, lse};
    OPBOUND_HD static std::int64_t block_of(const Sizes&, int, std::int64_t i) { return i; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const double top = team.max(n, [&](std::int64_t j) { return io.exact(logits, first + j); });
      const bool has_number = top - top == 0;
      const auto shifted = [&](std::int64_t j) { return io.get(logits, first + j) - from<R>(top); };
      const R log_sum = has_number
                            ? log(team.sum(n, [&](std::int64_t j) { return exp(shifted(j)); }))
                            : not_a_number<R>();
      if (!p.attributes.recompute)
        io.put(lse, row, from<R>(top) + log_sum, abs(top) + magnitude(log_sum));

      const std::int64_t target = io.index(targets, row);
      const Target kind = kind_of(p, target);
      R value = from<R>(0.0);
      double gauge = 0;
      if (kind == Target::outside || (kind == Target::valid && !has_number)) {
        value = not_a_number<R>();
      } else if (kind == Target::valid) {
        R expected = shifted(target);  // sum_j q_j (x_j - max)
        if (p.attributes.label_smoothing > 0) {
          const R s = from<R>(p.attributes.label_smoothing);
          const R mean = team.sum(n, shifted) / from<R>(static_cast<double>(n));
          expected = (from<R>(1.0) - s) * expected + s * mean;
        }
        value = log_sum - expected;
        gauge = magnitude(log_sum) + magnitude(expected);
      }
      io.put(token_loss, row, value);
      io.put(loss, row, value, gauge);
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t n = p.sizes[1], first = row * n;
      const auto x = [&](std::int64_t j) { return io.get(logits, first + j); };
      const Placed top =
          largest_of(team, n, [&](std::int64_t j) { return io.exact(logits, first + j); });
      const std::int64_t target = io.index(targets, row);
      const Target kind = kind_of(p, target);
      const auto put = [&](T row_lse, T value) {
        team.map(1, [&](std::int64_t) {
          if (!p.attributes.recompute) io.put(lse, row, row_lse);
          const T result = kind == Target::valid     ? value
                           : kind == Target::ignored ? from<T>(0.0)
                                                     : not_a_number<T>();
          io.put(token_loss, row, result);
          io.put(loss, row, result);
        });
      };
      if (!top.is_finite()) {
        const T none = not_a_number<T>();
        return put(none, none);
      }
      const bool has_log1p = p.variant == log1p_form;
      // log1p takes exp(0) = 1 out of the sum, so that its maximum must be the number itself;
      // otherwise neither lse nor the loss depends on what is subtracted
      const T peak = has_log1p ? x(top.index) : pivot(x(top.index));
      const auto power = [&](std::int64_t j) { return exp(x(j) - peak); };
      const T log_sum =
          has_log1p
              ? log1p(team.sum(n - 1, [&](std::int64_t k) { return power(k + (k >= top.index)); }))
              : log(team.sum(n, power));
      const T row_lse = peak + log_sum;
      const T value =
          kind != Target::valid ? from<T>(0.0)
          : p.variant == lse_minus_target
              ? row_lse - expected(team, p, n, target, x)
              : log_sum + expected(team, p, n, target, [&](std::int64_t j) { return peak - x(j); });
      put(row_lse, value);
    }

    /// sum_j q_j x_j = (1 - s) x_t + (s / n) sum x; `x` may stand for peak - x, whose terms all
    /// have one sign.
    template <class Team, class X>
    OPBOUND_HD static auto expected(const Team& team, const Problem<cross_entropy>& p,
                                    std::int64_t n, std::int64_t target, X x) {
      using T = decltype(x(target));
      if (!(p.attributes.label_smoothing > 0)) return x(target);
      const T s = from<T>(p.attributes.label_smoothing);
      const T share = s / from<T>(static_cast<double>(n));
      return (from<T>(1.0) - s) * x(target) + share * team.sum(n, x);
    }
  };

  struct reduction : one_block {
    static constexpr std::array<int, 1> outputs{reduced};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t) {
      if (p.attributes.reduction == Reduction::none) return;
      std::int64_t counted = 0;
      for (std::int64_t i = 0; i < p.sizes[0]; ++i)
        counted += io.index(targets, i) == p.attributes.ignore_index ? 0 : 1;
      const R sum = team.sum(p.sizes[0], [&](std::int64_t i) { return io.get(token_loss, i); });
      if (p.attributes.reduction == Reduction::sum)
        io.put(reduced, 0, sum);
      else
        io.put(reduced, 0,
               counted == 0 ? not_a_number<R>() : sum / from<R>(static_cast<double>(counted)));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t) {
      if (p.attributes.reduction == Reduction::none) return;
      const std::int64_t counted = count_of(team, p.sizes[0], [&](std::int64_t i) {
        return io.index(targets, i) != p.attributes.ignore_index;
      });
      const T sum = team.sum(p.sizes[0], [&](std::int64_t i) { return io.get(token_loss, i); });
      team.map(1, [&](std::int64_t) {
        if (p.attributes.reduction == Reduction::sum)
          io.put(reduced, 0, sum);
        else
          io.put(reduced, 0,
                 counted == 0 ? not_a_number<T>() : sum / from<T>(static_cast<double>(counted)));
      });
    }
  };
  using parts = Parts<rows, reduction>;
};

}  // namespace opbound
