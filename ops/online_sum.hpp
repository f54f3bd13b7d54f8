// The streaming sum of exponentials: a running maximum and the sum below it, rescaled where the
// maximum grows (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "bounds/tracked.hpp"
#include "ops/number.hpp"
#include "ops/team.hpp"

namespace opbound {

/// sum = sum exp(x - top) over what it has seen, top their exact maximum.
template <class T>
struct Online {
  using Number = T;
  double top = -std::numeric_limits<double>::infinity();
  T sum = from<T>(0.0);
};

/// Merges states along any tree. What a state holds is decided by exact inputs alone: which of two
/// is rescaled, and that equal maxima are not.
struct OnlineSum {
  template <class T>
  OPBOUND_HD static Online<T> combine(const Online<T>& a, const Online<T>& b) {
    if (a.top == b.top) return {a.top, a.sum + b.sum};
    if (b.top < a.top) return {a.top, a.sum + rescaled(b, a.top)};
    if (a.top < b.top) return {b.top, rescaled(a, b.top) + b.sum};
    return {a.top != a.top ? a.top : b.top, a.sum + b.sum};  // NaN, and so is all that follows
  }
  template <class State>
  OPBOUND_HD static State empty() {
    return {};
  }

  /// Any merge tree. A leaf j is rescaled only when its state's maximum grows, so at most d_j
  /// times, the number of different values above x_j; the rounded differences of maxima telescope
  /// (bounds/README.md 3.2). With w_j = exp(x_j - top), e and h the errors of exp:
  ///   |got - exact| <= sum_j w_j (((1 + e)(1 + u))^d_j exp(u (top - x_j)) (1 + u)^(n - 1) - 1)
  ///                    + underflow
  /// where a rescaling of k elements loses at most k h + eta, and n - 1 of them at most
  /// n^2/2 h + n eta. What is lost grows by roundings alone, since a factor is exp(<= 0) <= 1 + e.
  template <class F>
  static auto any_order(std::int64_t n, F term) {
    using State = decltype(term(std::int64_t{0}));
    State total = HostTeam<1>{}.reduce<OnlineSum>(n, term);
    if (n > 1) bound_any_tree(n, term, total);
    return total;
  }

 private:
  template <class T>
  OPBOUND_HD static T rescaled(const Online<T>& state, double top) {
    return state.sum * exp(from<T>(state.top) - from<T>(top));
  }

  template <class F, class T, class K>
  static void bound_any_tree(std::int64_t n, F term, Online<Tracked<T, K>>& total) {
    constexpr double u = Facts<T>::u, eta = Facts<T>::format.eta();
    const LocalError exp_error = detail::declared_error<T, K>(Function::exp);
    total.sum.radius = total.sum.spread = detail::infinite;
    if (!detail::is_finite(total.top) || n > (std::int64_t{1} << 20)) return;
    std::vector<double> values;
    for (std::int64_t j = 0; j < n; ++j) values.push_back(term(j).top);
    std::sort(values.begin(), values.end(), std::greater<>());
    values.erase(std::unique(values.begin(), values.end()), values.end());

    const double per_rescaling = log1p(exp_error.relative) + log1p(u);
    const double by_sums = static_cast<double>(n - 1) * log1p(u);
    // what loading into T changes, in the exponent
    const auto load_error = [](double x) { return abs(to_double(from<T>(x)) - x); };
    double radius = 0, spread = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto leaf = term(j);
      if (leaf.top == -detail::infinite) continue;  // masked: 0 along every tree
      const auto above = std::lower_bound(values.begin(), values.end(), leaf.top, std::greater<>());
      const double loads = load_error(leaf.top) + load_error(total.top);
      const double d = total.top - leaf.top;
      const double rest =
          static_cast<double>(above - values.begin()) * per_rescaling + u * loads + loads + by_sums;
      // w (e^growth - 1), or without the 1 where e^growth may be larger than any number
      const double growth = u * d + rest, grown = exp(rest - (1 - u) * d);
      const double off = growth < 1 ? exp(-d) * expm1(growth) : grown;
      radius += (leaf.sum.size() + leaf.sum.radius) * off + leaf.sum.radius * grown;
      spread += leaf.sum.spread * grown;
    }
    const double count = static_cast<double>(n), steps = static_cast<double>(values.size());
    radius += (count * count / 2 * exp_error.absolute + count * eta) *
              exp(steps * per_rescaling + by_sums);
    // w, expm1 and the sums here: below 2^-28 of themselves for n <= 2^20
    radius *= 1 + 0x1p-28;
    spread *= 1 + 0x1p-28;
    if (!(total.sum.size() + 2 * radius + spread <= Facts<T>::format.largest())) return;
    total.sum.radius = radius;
    total.sum.spread = 2 * radius + spread;  // ours is along one of the trees
  }
};

}  // namespace opbound
