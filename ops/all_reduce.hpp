// All-reduce: every rank ends with the sum, mean, minimum or maximum over all ranks.
//
// The ranks are an axis like any other, and a schedule is an order of summation along it: by chunk
// of the message, since a ring starts each chunk at another rank. What a rank hands on is stored in
// its buffer first; in bf16 or fp8 that is where the error comes from (bounds/README.md 5).
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct all_reduce {
  static constexpr std::string_view name = "all_reduce";
  static constexpr std::string_view math =
      "sum: y = sum_r x_r; mean: that over the number of ranks; min, max: NaN if any x_r is NaN";
  static constexpr std::array<std::string_view, 2> dims{"ranks", "n"};

  enum class Reduction { sum, mean, min, max };
  enum class Divides { after, before };
  enum class Hop { compute, output };
  struct Attributes {
    Reduction reduction = Reduction::sum;
    Divides divides = Divides::after;  ///< of a mean: the sum, or every x_r times fl(1 / ranks)
    Hop hop = Hop::compute;            ///< the format that a partial sum is stored in
    std::int64_t group = 8;            ///< ranks of a node, for hierarchical
  };
  static constexpr auto attributes = std::tuple{
      choice("reduction", &Attributes::reduction, "sum", "mean", "min", "max"),
      choice("divides", &Attributes::divides, "after", "before"),
      choice("hop", &Attributes::hop, "compute", "output"), field("group", &Attributes::group)};

  enum {
    any_order,
    ring,
    halving_doubling,
    binary_tree,
    double_tree,
    hierarchical,
    direct,
    balanced_tree
  };
  static constexpr std::array variants{
      Variant{"any_order", "in some order of the ranks"},
      Variant{"ring", "chunk c, of ceil(n / ranks), goes from rank c + 1 once around"},
      Variant{"halving_doubling",
              "ranks beyond a power of two P onto rank - P, then pairs P/2, P/4, ..., 1 apart"},
      Variant{"binary_tree", "(x_r + sum of 2r + 1) + sum of 2r + 2, from rank 0"},
      Variant{"double_tree", "binary_tree, the second half of n with the ranks reversed"},
      Variant{"hierarchical", "each `group` of ranks in turn, then the groups as binary_tree"},
      Variant{"direct", "every rank adds all ranks in turn, and stores the sum alone"},
      Variant{"balanced_tree",
              "halves, the first ceil(n / 2) long, and their halves; ranks are micro-batches"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    const bool adds = a.reduction == Reduction::sum || a.reduction == Reduction::mean;
    if (!adds) return variant == any_order && a.hop == Hop::compute;  // no partial sum is stored
    return a.hop == Hop::compute || (variant != any_order && variant != direct);
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    if (a.group < 1) return "a group of at least 1 rank";
    return a.reduction != Reduction::sum && s[0] == 0 ? "ranks of at least 1" : "";
  }

  struct forward;

 private:
  /// Terms in turn from `first` on, around.
  template <class T, class F, class Add>
  OPBOUND_HD static T chain(std::int64_t count, std::int64_t first, std::int64_t around, F term,
                            Add add) {
    T total = term(first % around);
    for (std::int64_t k = 1; k < count; ++k) total = add(total, term((first + k) % around));
    return total;
  }

  /// k with its lowest `bits` bits in reverse.
  OPBOUND_HD static std::int64_t reversed(std::int64_t k, int bits) {
    std::int64_t r = 0;
    for (int b = 0; b < bits; ++b) r |= ((k >> b) & 1) << (bits - 1 - b);
    return r;
  }

  /// Pairs that are P/2 apart are neighbours once the ranks' bits are reversed: partial sums of
  /// equal size meet, as carries do in a binary counter.
  template <class T, class F, class Add>
  OPBOUND_HD static T halving(std::int64_t ranks, F term, Add add) {
    int bits = 0;
    while ((std::int64_t{2} << bits) <= ranks) ++bits;
    const std::int64_t power = std::int64_t{1} << bits;
    T partial[48];
    int depth = 0;
    for (std::int64_t k = 0; k < power; ++k) {
      const std::int64_t r = reversed(k, bits);
      T own = r + power < ranks ? add(term(r), term(r + power)) : term(r);
      for (std::int64_t carry = k; (carry & 1) != 0; carry >>= 1) own = add(partial[--depth], own);
      partial[depth++] = own;
    }
    return partial[0];
  }

  /// The first ceil(n / 2) terms and the others, each by halves in turn. The terms come in their
  /// order, so that what waits are the sums of left halves and the sizes of right ones.
  template <class T, class F, class Add>
  OPBOUND_HD static T halves(std::int64_t count, F term, Add add) {
    T left[48];
    std::int64_t right[48];
    bool is_right[48];
    int depth = 0;
    std::int64_t next = 0;
    for (;;) {
      for (; count > 1; count -= count / 2) {
        right[depth] = count / 2;
        is_right[depth++] = false;
      }
      T sum = term(next++);
      while (depth > 0 && is_right[depth - 1]) sum = add(left[--depth], sum);
      if (depth == 0) return sum;
      left[depth - 1] = sum;
      is_right[depth - 1] = true;
      count = right[depth - 1];
    }
  }

  /// Rank r and the sums of 2r + 1 and 2r + 2, children first.
  template <class T, class F, class Add>
  OPBOUND_HD static T tree(std::int64_t ranks, F term, Add add) {
    T total[48];
    std::int64_t rank[48];
    int children[48];
    int depth = 0;
    const auto enter = [&](std::int64_t r) {
      total[depth] = term(r);
      rank[depth] = r;
      children[depth++] = 0;
    };
    enter(0);
    for (;;) {
      const int top = depth - 1;
      const std::int64_t child = 2 * rank[top] + 1 + children[top];
      if (children[top]++ < 2) {
        if (child < ranks) enter(child);
        continue;
      }
      if (top == 0) return total[0];
      --depth;
      total[top - 1] = add(total[top - 1], total[top]);
    }
  }
};

struct all_reduce::forward {
  enum { x, y };
  static constexpr std::array tensors{in("x", "ranks", "n"), out("y", "n")};

  struct elements : elementwise_blocks<1>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<all_reduce>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t ranks = p.sizes[0], n = p.sizes[1];
      const Reduction reduction = p.attributes.reduction;
      each(team, p.sizes, block, [&](std::int64_t i) {
        if (reduction == Reduction::min || reduction == Reduction::max) {
          io.put(y, i, extreme<R>(reduction, ranks, [&](std::int64_t r) {
                   return io.get(x, r * n + i);
                 }));
          return;
        }
        const GaugedSum<R> sum =
            gauged_sum_of<R>(ranks, [&](std::int64_t r) { return io.get(x, r * n + i); });
        if (reduction == Reduction::sum) return io.put(y, i, sum);
        io.put(y, i, sum / from<R>(static_cast<double>(ranks)));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<all_reduce>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t ranks = p.sizes[0], n = p.sizes[1];
      const Attributes& a = p.attributes;
      const bool is_mean = a.reduction == Reduction::mean;
      const T count = from<T>(static_cast<double>(ranks));
      const T share = is_mean ? from<T>(1.0) / count : from<T>(1.0);
      each(team, p.sizes, block, [&](std::int64_t i) {
        const auto term = [&](std::int64_t r) {
          const T own = io.get(x, r * n + i);
          return is_mean && a.divides == Divides::before ? own * share : own;
        };
        if (a.reduction == Reduction::min || a.reduction == Reduction::max)
          return io.put(y, i, extreme<T>(a.reduction, ranks, term));
        const T sum = scheduled<T>(team, p, i, term, io.format(y));
        io.put(y, i, is_mean && a.divides == Divides::after ? sum / count : sum);
      });
    }

   private:
    template <class T, class F>
    OPBOUND_HD static T extreme(Reduction reduction, std::int64_t ranks, F term) {
      T most = term(0);
      for (std::int64_t r = 1; r < ranks; ++r)
        most = reduction == Reduction::max ? max(most, term(r)) : min(most, term(r));
      return most;
    }

    /// The sum for element i, along its chunk's schedule.
    template <class T, class Team, class F>
    OPBOUND_HD static T scheduled(const Team& team, const Problem<all_reduce>& p, std::int64_t i,
                                  F term, const Format& wire) {
      const std::int64_t ranks = p.sizes[0], n = p.sizes[1], group = p.attributes.group;
      if (p.variant == any_order || ranks == 0) return team.serial_sum(ranks, term);
      const bool stores = p.attributes.hop == Hop::output;
      const auto kept = [&](T v) { return stores ? stored_in(wire, v) : v; };
      const auto add = [&](T v, T w) { return kept(v) + kept(w); };
      switch (p.variant) {
        case ring:
          return chain<T>(ranks, i / ((n + ranks - 1) / ranks) + 1, ranks, term, add);
        case halving_doubling:
          return halving<T>(ranks, term, add);
        case hierarchical:
          return tree<T>((ranks + group - 1) / group,
                         [&](std::int64_t g) {
                           const std::int64_t first = g * group, left = ranks - first;
                           return chain<T>(left < group ? left : group, first, ranks, term, add);
                         },
                         add);
        case double_tree:
          return tree<T>(
              ranks, [&](std::int64_t r) { return term(2 * i < n ? r : ranks - 1 - r); }, add);
        case binary_tree:
          return tree<T>(ranks, term, add);
        case balanced_tree:
          return halves<T>(ranks, term, add);
        default:
          return chain<T>(ranks, 0, ranks, term, add);
      }
    }
  };
  using parts = Parts<elements>;
};

}  // namespace opbound
