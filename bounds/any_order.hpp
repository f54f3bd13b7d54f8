// Teams that bound every summation order of an algorithm, or one revealed tree. Host only.
#pragma once

#include <cstdint>
#include <vector>

#include "bounds/along_tree.hpp"
#include "bounds/tracked.hpp"
#include "ops/team.hpp"

namespace opbound {

namespace detail {

/// Is every partial sum, in any order, exact? All terms are multiples of 2^q; if their magnitudes
/// add up to at most 2^(digits + q), so do those of every part, and no addition rounds.
class ExactInAnyOrder {
 public:
  void take(double x) {
    if (x == 0) return;
    const int exponent = std::ilogb(x);
    const auto bits = std::bit_cast<std::uint64_t>(std::scalbn(x, 52 - exponent)) | (1ULL << 52);
    const int q = exponent - 52 + std::countr_zero(bits & ((1ULL << 53) - 1));
    if (q < lowest_) lowest_ = q;
    total_ += abs(x);
  }
  /// total_ is right wherever it is at most 2^(53 + q): it only grows, by multiples of 2^q. At
  /// 2^(53 + q) itself it may be a sum that was rounded down.
  bool holds(const Format& f) const {
    if (total_ == 0) return true;
    const double limit = std::scalbn(1.0, f.digits + lowest_);
    return total_ < limit || (total_ == limit && f.digits < 53);
  }

 private:
  double total_ = 0;
  int lowest_ = 4096;
};

}  // namespace detail

/// Sums bounded for every order: |fl(sum x') - sum x'| <= (n - 1) u sum |x'|, without restriction
/// on n (Jeannerod and Rump 2013, "Improved error bounds for inner products in floating-point
/// arithmetic"), x' being another execution's terms, |x'| <= |x| + spread.
struct AnyOrderTeam : OneByOne {
  template <class F>
  auto sum(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    return sum_tracked(n, term, T{});
  }

  template <class F>
  auto max(std::int64_t n, F term) const {
    return HostTeam<1>{}.max(n, term);  // max does not round: its order does not matter
  }

  template <class F>
  bool any(std::int64_t n, F predicate) const {
    return HostTeam<1>{}.any(n, predicate);
  }

  template <class F>
  void map(std::int64_t n, F action) const {
    HostTeam<1>{}.map(n, action);
  }
  void barrier() const {}

  template <class F>
  auto serial_sum(std::int64_t n, F term) const {
    return sum(n, term);
  }
  /// Rounded products added in any order; a fused multiply-add leaves roundings out.
  template <class A, class B>
  auto dot(std::int64_t n, A a, B b) const {
    return sum(n, [&](std::int64_t i) { return a(i) * b(i); });
  }

  /// A reduction of its own kind brings the rule for every order with it.
  template <class Kind, class F>
  auto reduce(std::int64_t n, F term) const {
    return Kind::any_order(n, term);
  }

 private:
  template <class F, class T>
  static Tracked<T, Foreign> sum_tracked(std::int64_t n, F term, Tracked<T, Foreign>) {
    using Value = Tracked<T, Foreign>;
    if (n <= 0) return Sum::empty<Value>();
    Value total = term(0);
    Terms terms;
    terms.take(total);
    for (std::int64_t i = 1; i < n; ++i) {
      const Value x = term(i);
      total.value = total.value + x.value;
      total.radius += x.radius;
      total.spread += x.spread;
      terms.take(x);
    }
    return with_local_terms(total, n, terms);
  }

  /// What is known of all terms together.
  struct Terms {
    double magnitude = 0, ours = 0;  ///< sums of |x| over finite terms, theirs and ours
    bool same = true;                ///< theirs are ours, so that they round as ours do
    bool any_infinite = false;       ///< some are exact infinities
    bool any_nan = false;            ///< some are NaN in every execution
    bool known = true;               ///< all others are finite in every execution
    detail::ExactInAnyOrder exact;

    template <class T>
    void take(const Tracked<T, Foreign>& x) {
      if (detail::is_exact_infinity(x)) {
        any_infinite = true;
        return;
      }
      any_nan = any_nan || detail::is_certain_nan(x);
      known = known && detail::is_finite_everywhere(x);
      if (!known) return;
      magnitude += x.far();
      ours += x.size();
      same = same && x.spread == 0;
      exact.take(to_double(x));
    }
  };

  /// The sums above have n roundings each: 1 + n 2^-52 covers them.
  template <class T>
  static Tracked<T, Foreign> with_local_terms(Tracked<T, Foreign> total, std::int64_t n,
                                              const Terms& terms) {
    const bool exact = terms.same && terms.exact.holds(Facts<T>::format);
    const double steps = static_cast<double>(n - 1);
    const double grow = 1 + static_cast<double>(n) * 0x1p-52;
    const double theirs = exact ? 0 : steps * Facts<T>::u * terms.magnitude;
    const double mine = exact ? 0 : steps * Facts<T>::u * terms.ours;
    // a partial sum of theirs may be as large as the sum of all magnitudes
    const bool may_overflow =
        !(terms.magnitude * grow + theirs <= Facts<T>::format.largest()) || !terms.known;
    if (!detail::is_finite(to_double(total)))
      return detail::not_finite<T, Foreign>(total.value,
                                            terms.any_nan || (terms.any_infinite && !may_overflow));
    total.radius = detail::up((total.radius + theirs) * grow);
    total.spread = detail::up((total.spread + theirs + mine) * grow);
    if (may_overflow) total.radius = total.spread = detail::infinite;
    return total;
  }
};

/// Sums along one tree, revealed by probing (bounds/reveal.hpp) or declared: every sum of that many
/// terms, those of one lane too, so that it is for kernels with one such sum. Other lengths, and
/// all where there is no tree, fall back to any order. A node with k > 2 children adds them in any
/// order: (k - 1) u sum |children|.
struct TreeTeam : AnyOrderTeam {
  const SumTree* tree;

  explicit TreeTeam(const SumTree* t) : tree(t) {}

  template <class F>
  auto sum(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    if (tree == nullptr || tree->leaves != n || n < 2) return AnyOrderTeam{}.sum(n, term);
    std::vector<T> results;
    results.reserve(tree->nodes.size());
    for (const auto& children : tree->nodes) {
      const auto child = [&](std::int64_t k) {
        const std::int64_t c = children[static_cast<std::size_t>(k)];
        return c < n ? term(c) : results[static_cast<std::size_t>(c - n)];
      };
      results.push_back(
          children.size() == 2
              ? child(0) + child(1)
              : AnyOrderTeam{}.sum(static_cast<std::int64_t>(children.size()), child));
    }
    return results.back();
  }

  template <class F>
  auto serial_sum(std::int64_t n, F term) const {
    return sum(n, term);
  }
  /// Rounded products along the tree; a fused multiply-add leaves roundings out.
  template <class A, class B>
  auto dot(std::int64_t n, A a, B b) const {
    return sum(n, [&](std::int64_t i) { return a(i) * b(i); });
  }
};

}  // namespace opbound
