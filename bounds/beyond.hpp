// What overflows, or may: an infinity of which is known that every execution's value and the exact
// one have its sign and are at least `radius`. Masks need it: the sum of a score and the lowest
// number overflows in one execution and not in another, and its exponential is 0 in all.
#pragma once

#include "bounds/special_values.hpp"

namespace opbound::detail {

/// x lies in [lowest, highest] in every execution and over the extended reals; where that is
/// everything, it may be NaN too.
struct Range {
  double lowest, highest;
};

template <class T, class K>
OPBOUND_HD Range range_of(Tracked<T, K> x) {
  const double v = to_double(x);
  if (is_exact_infinity(x)) return {v, v};
  if (is_beyond(x)) return v > 0 ? Range{x.radius, infinite} : Range{-infinite, -x.radius};
  if (!is_finite_everywhere(x)) return {-infinite, infinite};
  const double reach = up(x.radius + x.spread + 0x1p-52 * abs(v));  // their difference rounds
  return {v - reach, v + reach};
}

/// Magnitudes are in [least, most]; the sign is certain if least > 0.
template <class T, class K>
OPBOUND_HD double least_of(Tracked<T, K> x) {
  const Range r = range_of(x);
  return positive_part(max(r.lowest, -r.highest));
}
template <class T, class K>
OPBOUND_HD double most_of(Tracked<T, K> x) {
  const Range r = range_of(x);
  return max(r.highest, -r.lowest);
}

/// A result of this sign, at least `least` before it rounds. Only near the largest number it is
/// worth knowing: there exp(-least), and what a function of an s shape leaves of its limit, are
/// below every error. (1 - 2 u) is for its own rounding, `shrink` for those of `least`, which may
/// be more than any T: then the value is infinite in every execution.
template <class T, class K>
OPBOUND_HD Tracked<T, K> beyond(T value, bool is_below, double least) {
  if constexpr (may_be_beyond<T>) {
    constexpr double largest = Facts<T>::format.largest();
    const T infinity = from<T>(is_below ? -infinite : infinite);
    least = min(least, fp64.largest()) * (1 - 2 * Facts<T>::u) * shrink;
    // our own value is what the kernel gives, not another one that is as large
    const bool is_ours = K::foreign || to_double(value) == to_double(infinity);
    if (is_ours && least >= largest / 4 && !is_finite(to_double(infinity))) {
      Tracked<T, K> r(infinity);
      r.radius = least;
      if constexpr (K::foreign) r.spread = least;
      return r;
    }
  }
  return not_finite<T, K>(value, false);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> overflowed_sum(T sum, Tracked<T, K> a, Tracked<T, K> b) {
  const Range x = range_of(a), y = range_of(b);
  const bool is_below = to_double(sum) < 0;
  return beyond<T, K>(sum, is_below, is_below ? -(x.highest + y.highest) : x.lowest + y.lowest);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> overflowed_product(T product, Tracked<T, K> a,
                                                          Tracked<T, K> b) {
  return beyond<T, K>(product, to_double(product) < 0, least_of(a) * least_of(b));
}

/// The sign is certain where both operands' are, and least > 0 says so of the divisor too.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> overflowed_quotient(T quotient, Tracked<T, K> a,
                                                           Tracked<T, K> b) {
  const double least = least_of(b) > 0 ? least_of(a) / most_of(b) : 0;
  return beyond<T, K>(quotient, to_double(quotient) < 0, least);
}

/// max where one operand may have overflowed.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> max_of_beyond(Tracked<T, K> a, Tracked<T, K> b) {
  if (is_certain_nan(a)) return a;
  if (is_certain_nan(b)) return b;
  const Range x = range_of(a), y = range_of(b);
  if (x.lowest >= y.highest) return a;
  if (y.lowest >= x.highest) return b;
  const bool may_be_nan = !(has_certain_sign(a) || is_finite_everywhere(a)) ||
                          !(has_certain_sign(b) || is_finite_everywhere(b));
  if (may_be_nan) return not_finite<T, K>(max(a.value, b.value), false);
  const double lowest = max(x.lowest, y.lowest), highest = max(x.highest, y.highest);
  return beyond<T, K>(max(a.value, b.value), highest < 0, max(lowest, -highest));
}

}  // namespace opbound::detail
