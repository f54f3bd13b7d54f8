// Mean and sum of squared deviations by merging (Welford 1962; Chan, Golub and LeVeque 1979), with
// what its errors become for one order and for all.
//
// A merge is a convex combination of means: their errors are averaged, where a bound of its single
// operations would add them up and grow by a factor of 2 at every level (bounds/README.md 2.4).
#pragma once

#include "bounds/tracked.hpp"
#include "ops/number.hpp"
#include "ops/team.hpp"

namespace opbound {

/// Of a set of numbers: how many, their mean, the sum of their squared distances from it.
template <class T>
struct Moments {
  using Number = T;
  std::int64_t count = 0;
  T mean{};
  T squares{};
};

namespace detail {

template <class T>
OPBOUND_HD void take_operand_errors(const Moments<T>&, const Moments<T>&, T, Moments<T>&) {}

/// mean: (na ea + nb eb) / n. squares, whose own errors the sums carry: the exact term
/// (mb - ma)^2 na nb / n moves by (2 |delta| e + e^2) na nb / n, e = ea + eb.
template <class T, class K>
OPBOUND_HD void take_operand_errors(const Moments<Tracked<T, K>>& a,
                                    const Moments<Tracked<T, K>>& b, Tracked<T, K> delta,
                                    Moments<Tracked<T, K>>& merged) {
  const auto na = static_cast<double>(a.count), nb = static_cast<double>(b.count);
  const double n = na + nb, e = a.mean.radius + b.mean.radius;
  merged.mean.radius += up((times(na, a.mean.radius) + times(nb, b.mean.radius)) / n);
  const double moved = times(2 * (delta.far() + delta.radius) + e, e);
  merged.squares.radius += up(times(moved, na * nb / n));
  merged.mean.radius = is_finite(to_double(merged.mean)) ? up(merged.mean.radius) : infinite;
  merged.squares.radius =
      is_finite(to_double(merged.squares)) ? up(merged.squares.radius) : infinite;
}

/// Bounds of the moments of n exact numbers, each off by at most `leaf`, for every tree of merges
/// and for Welford's update of one number at a time.
///
/// For a node v of n_v = na + nb numbers let D be the exact difference of its children's means and
/// w = na nb / n_v. Over any tree (bounds/README.md 2.4)
///   sum D^2 w = Q, the squares of all     sum w <= F = (n / 2) log2 n
///   sum w n_v = n (n - 1) / 2             sum w n_v^2 = (n^3 - n) / 3
class AnyMergeOrder {
 public:
  /// largest: of |x|; squares: at least the sum of squared deviations; both of the exact numbers.
  AnyMergeOrder(std::int64_t count, double largest, double squares, double leaf, const Format& f)
      : n_(static_cast<double>(count)), q_(squares), u_(f.unit_roundoff()), eta_(f.eta()) {
    // nb / n does not underflow, and n does not overflow
    if (!(n_ * f.smallest_normal() <= 1 && n_ <= f.largest())) return;
    const double counted = n_ * u_ <= 1 ? 0 : u_;  // rounding of na, nb, n themselves
    const double weight = (1 + u_) * (1 + counted) / (1 - counted) - 1;
    take_mean(largest, leaf, (1 + u_) * (1 + u_) * (1 + weight) - 1);
    take_squares(leaf, weight);
    const double slack = 1 + (n_ + 64) * 0x1p-50;
    mean_ *= slack;
    squares_ *= slack;
    // a difference of two means may be twice the largest number
    if (!(mean_ >= 0 && 2 * (largest + mean_) <= f.largest())) mean_ = infinite;
    if (!(squares_ >= 0 && 4 * (squares + squares_) <= f.largest())) squares_ = infinite;
  }

  double mean() const { return mean_; }
  double squares() const { return squares_; }

 private:
  /// A node makes step = k (|D| + e) nb / n_v + eta and u (largest + E + step) of its own, with
  /// e <= 2 E the error of its D; its children's errors are averaged:
  ///   n_v e_v <= na ea + nb eb + k (1 + u) nb |D| + n_v L,
  ///   L = 2 k (1 + u) E + (1 + u) eta + u (largest + E).
  /// sum nb |D| <= sqrt(Q sum nb^2 / w) <= sqrt(Q (n^3 - n) / 3), since nb^2 / w = nb n_v / na is
  /// at most w n_v^2; sum n_v <= n (n + 1) / 2 - 1 (one number at a time). So for all n, and for m
  /// of them with m for n,
  ///   E <= leaf + K sqrt(Q n / 3) + h L,   K = k (1 + u), h = (n + 1) / 2 - 1 / n,
  /// which is linear in E.
  void take_mean(double largest, double leaf, double k) {
    const double h = (n_ + 1) / 2 - 1 / n_, grown = 2 * k * (1 + u_) + u_;
    const double rest = 1 - h * grown;
    if (!(rest > 0)) return;
    steps_ = k * (1 + u_) * sqrt(q_ / 3);
    const double least = (1 + u_) * eta_ + u_ * largest;
    mean_ = (leaf + steps_ * sqrt(n_) + h * least) / rest;
    local_ = grown * mean_ + least;
  }

  /// A difference of means is off by e <= A + B n_v + C sqrt(n_v), A = 2 leaf + L, B = L / 2 and
  /// C = K sqrt(Q / 3) (by Cauchy, sqrt(Qa na) + sqrt(Qb nb) <= sqrt(Q n_v)). Welford's update
  /// (x - m) (x - m') errs by |D| e' + |D| w e + e e', both within that, and e' / w <= e' + A + 2 B
  /// + sqrt(2) C: within 2 |D| w e + w e^2 with A' = 3/2 A + B + C / sqrt(2) for A. All terms
  /// together are off by
  ///   cross = sum (2 |D| e + e^2) w <= 2 sqrt(Q V) + V,    V = sum e^2 w (Cauchy), where
  ///   sqrt V <= A' sqrt F + B sqrt((n^3 - n) / 3) + C sqrt(n (n - 1) / 2)  (Minkowski)
  /// and by tau (Q + cross) for their own roundings. The two additions of a node: u2 (Q + S).
  void take_squares(double leaf, double weight) {
    if (!(mean_ < infinite)) return;
    const double f = n_ / 2 * log2_above(n_), a = 2 * leaf + local_, b = local_ / 2, c = steps_;
    const double root = (1.5 * a + b + 0.7072 * c) * sqrt(f) + b * sqrt((n_ * n_ * n_ - n_) / 3) +
                        c * sqrt(n_ * (n_ - 1) / 2);
    const double cross = 2 * sqrt(q_) * root + root * root;
    double tau = 1 + weight;
    for (int i = 0; i < 6; ++i) tau *= 1 + u_;
    const double terms = (tau - 1) * (q_ + cross) + cross + 2 * eta_ * (f + n_);
    const double additions = (n_ - 1) * (2 + u_) * u_;
    if (additions < 1) squares_ = (terms + additions * q_) / (1 - additions);
  }

  static double log2_above(double n) {
    double result = 0;
    for (double power = 1; power < n; power *= 2) ++result;
    return result;
  }

  double n_, q_, u_, eta_;
  double steps_ = 0, local_ = 0;  ///< K sqrt(Q / 3), L
  double mean_ = infinite, squares_ = infinite;
};

}  // namespace detail

/// Merges two sets of numbers. That x enters as {1, x, 0} makes it Welford's update.
struct MergeMoments {
  template <class M>
  OPBOUND_HD static M empty() {
    using T = typename M::Number;
    return {0, from<T>(0.0) / from<T>(0.0), from<T>(0.0)};
  }

  template <class T>
  OPBOUND_HD static Moments<T> combine(const Moments<T>& a, const Moments<T>& b) {
    static_assert(sizeof(Moments<T>) <= widest_lane<T>);
    const auto size = [](std::int64_t n) { return from<T>(static_cast<double>(n)); };
    Moments<T> merged;
    merged.count = a.count + b.count;
    // The operands' errors are taken in below, all at once: here they count as exact.
    const T delta = pivot(b.mean) - pivot(a.mean);
    const T weight = size(b.count) / size(merged.count);
    merged.mean = pivot(a.mean) + delta * weight;
    merged.squares = (a.squares + b.squares) + (delta * delta) * (size(a.count) * weight);
    detail::take_operand_errors(a, b, delta, merged);
    return merged;
  }

  /// For terms that are the same in every execution; of others nothing is claimed.
  template <class F>
  static auto any_order(std::int64_t n, F term) {
    using M = decltype(term(std::int64_t{0}));
    using T = typename M::Number;
    M ours = HostTeam<1>{}.template reduce<MergeMoments>(n, term);
    if (n <= 1) return ours;
    double low = detail::infinite, high = -detail::infinite, leaf = 0, squares = 0;
    const double centre = to_double(ours.mean);  // any number: squares are least around the mean
    bool known = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const T x = term(i).mean;
      const double v = to_double(x);
      known = known && x.spread == 0 && detail::is_finite_everywhere(x);
      low = min(low, v);
      high = max(high, v);
      leaf = max(leaf, x.radius);
      const double far = abs(v - centre) * (1 + 0x1p-52) + x.radius;
      squares += far * far;
    }
    if (known && low == high && leaf == 0) return ours;  // differences of 0: nothing rounds
    squares *= 1 + static_cast<double>(n + 8) * 0x1p-51;
    const detail::AnyMergeOrder bound(n, max(abs(low), abs(high)) + leaf, squares, leaf,
                                      Facts<decltype(T::value)>::format);
    const auto state = [&](T& x, double error) {
      const bool is_bounded = known && detail::is_finite(to_double(x));
      x.radius = is_bounded ? error : detail::infinite;
      x.spread = is_bounded ? 2 * error : detail::infinite;  // either is this near the exact one
    };
    state(ours.mean, bound.mean());
    state(ours.squares, bound.squares());
    return ours;
  }
};

}  // namespace opbound
