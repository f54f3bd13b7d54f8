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

  struct rows : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 3> outputs{token_loss, loss, lse};

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
      if (!p.attributes.recompute) io.put(lse, row, gauged_sum(from<R>(top), log_sum));

      const std::int64_t target = io.index(targets, row);
      const bool is_ignored = target == p.attributes.ignore_index;
      const bool has_loss = has_number && 0 <= target && target <= n - 1;
      GaugedSum<R> value;  // 0 of an ignored target
      if (!is_ignored && !has_loss) {
        value = gauged_sum(not_a_number<R>());
      } else if (!is_ignored) {
        R expected = shifted(target);  // sum_j q_j (x_j - max)
        if (p.attributes.label_smoothing > 0) {
          const R s = from<R>(p.attributes.label_smoothing);
          const R mean = team.sum(n, shifted) / from<R>(static_cast<double>(n));
          expected = (from<R>(1.0) - s) * expected + s * mean;
        }
        value = gauged_sum(log_sum, -expected);
      }
      io.put(token_loss, row, value);
      io.put(loss, row, value);
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
      const LogSum<T> sum = log_sum_exp(team, n, x, top, p.variant == log1p_form);
      const T row_lse = sum.peak + sum.log_sum;
      const T value = kind != Target::valid ? from<T>(0.0)
                      : p.variant == lse_minus_target
                          ? row_lse - expected(team, p, n, target, x)
                          : sum.log_sum + expected(team, p, n, target,
                                                   [&](std::int64_t j) { return sum.peak - x(j); });
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

  struct reduction : blocks_along<>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{reduced};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<cross_entropy>& p, const Io& io,
                                  std::int64_t) {
      if (p.attributes.reduction == Reduction::none) return;
      const std::int64_t counted = defined_count(p, io, targets);
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
      const std::int64_t counted = counted_targets(team, p, io, targets);
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
