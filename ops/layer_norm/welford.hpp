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
  merged.mean.radius = up(merged.mean.radius);
  merged.squares.radius = up(merged.squares.radius);
}

/// Bounds of the moments of n exact numbers, each off by at most `leaf`, for every tree of merges
/// and for Welford's update of one number at a time.
class AnyMergeOrder {
 public:
  /// largest: of |x|; range: max - min; squares: at least the sum of squared deviations; all of
  /// the exact numbers.
  AnyMergeOrder(std::int64_t count, double largest, double range, double squares, double leaf,
                const Format& f) {
    const auto n = static_cast<double>(count);
    const double u = f.unit_roundoff(), eta = f.eta();
    // nb / n does not underflow, and n does not overflow
    if (!(n * f.smallest_normal() <= 1 && n <= f.largest())) return;
    const double counted = n * u <= 1 ? 0 : u;  // rounding of na, nb, n themselves
    const double weight = (1 + u) * (1 + counted) / (1 - counted) - 1;
    mean_ = mean_error(n, largest, range, leaf, (1 + u) * (1 + u) * (1 + weight) - 1, u, eta);
    squares_ = squares_error(n, squares, weight, u, eta);
    const double slack = 1 + (n + 64) * 0x1p-50;
    mean_ *= slack;
    squares_ *= slack;
    if (!(mean_ >= 0 && largest + mean_ <= f.largest())) mean_ = infinite;
    if (!(squares_ >= 0 && 4 * (squares + squares_) <= f.largest())) squares_ = infinite;
  }

  double mean() const { return mean_; }
  double squares() const { return squares_; }

 private:
  /// A node of n_v numbers adds local = step + u (largest + E + step), step = k (range + 2 E) +
  /// eta, to the mean of its children's errors: n_v e_v <= na ea + nb eb + n_v local. Summed over a
  /// tree, sum n_v <= n (n + 1) / 2 - 1 (one number at a time), so with h = (n + 1) / 2 - 1 / n
  ///   E = leaf + h local(E), which is linear in E.
  static double mean_error(double n, double largest, double range, double leaf, double k, double u,
                           double eta) {
    const double h = (n + 1) / 2 - 1 / n;
    const double rest = 1 - h * (2 * k * (1 + u) + u);
    if (!(rest > 0)) return infinite;
    return (leaf + h * ((k * range + eta) * (1 + u) + u * largest)) / rest;
  }

  /// With D the exact difference of two means and w = na nb / n: sum D^2 w = Q, the squares of all,
  /// and sum w <= sum min(na, nb) <= F = (n / 2) log2 n (induction; the binary entropy of p <= 1/2
  /// is at least 2 p). Computed differences are off by e <= 2 E, so all terms together by
  ///   cross = sum (2 |D| e + e^2) w <= 4 E sqrt(Q F) + 4 E^2 F   (Cauchy and Schwarz)
  /// and by tau (Q + cross) for their own roundings; Welford's update (x - m)(x - m') has an error
  /// of D e' + D w e, within 4 E D w as w >= 1/2. The two additions of a node: u2 (Q + S).
  double squares_error(double n, double q, double weight, double u, double eta) const {
    if (!(mean_ < infinite)) return infinite;
    const double f = n / 2 * log2_above(n);
    const double cross = 4 * mean_ * sqrt(q * f) + 4 * mean_ * mean_ * f;
    double tau = 1 + weight;
    for (int i = 0; i < 6; ++i) tau *= 1 + u;
    const double terms = (tau - 1) * (q + cross) + cross + 2 * eta * (f + n);
    const double additions = (n - 1) * (2 + u) * u;
    return additions < 1 ? (terms + additions * q) / (1 - additions) : infinite;
  }

  static double log2_above(double n) {
    double result = 0;
    for (double power = 1; power < n; power *= 2) ++result;
    return result;
  }

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
    const detail::AnyMergeOrder bound(n, max(abs(low), abs(high)) + leaf,
                                      (high - low) * (1 + 0x1p-52) + 2 * leaf, squares, leaf,
                                      Facts<decltype(T::value)>::format);
    const auto state = [&](T& x, double error) {
      x.radius = known ? error : detail::infinite;
      x.spread = known ? 2 * error : detail::infinite;  // either is this near the exact one
    };
    state(ours.mean, bound.mean());
    state(ours.squares, bound.squares());
    return ours;
  }
};

}  // namespace opbound
