// What definitions have in common: sums over the reals with their gauges. Kernels do not use it.
#pragma once

#include "ops/number.hpp"

namespace opbound {

/// A sum and its gauge: the same sum of the magnitudes of its terms. Where a bound is above the
/// gauge, it says nothing.
template <class R>
struct GaugedSum {
  R value = from<R>(0.0);
  double gauge = 0;

  OPBOUND_HD void add(const R& term) {
    value = value + term;
    gauge += magnitude(term);
  }
  OPBOUND_HD void add(const GaugedSum& terms) {
    value = value + terms.value;
    gauge += terms.gauge;
  }
};

/// a + b + ... in turn
template <class R, class... More>
OPBOUND_HD GaugedSum<R> gauged_sum(const R& first, const More&... more) {
  GaugedSum<R> sum{first, magnitude(first)};
  (sum.add(more), ...);
  return sum;
}

/// term(0) + ... + term(n - 1)
template <class R, class F>
OPBOUND_HD GaugedSum<R> gauged_sum_of(std::int64_t n, F term) {
  if (n <= 0) return {};
  GaugedSum<R> sum = gauged_sum<R>(term(0));
  for (std::int64_t i = 1; i < n; ++i) sum.add(term(i));
  return sum;
}

template <class R>
OPBOUND_HD GaugedSum<R> operator*(const R& factor, const GaugedSum<R>& sum) {
  return {factor * sum.value, magnitude(factor) * sum.gauge};
}
template <class R>
OPBOUND_HD GaugedSum<R> operator*(const GaugedSum<R>& sum, const R& factor) {
  return {sum.value * factor, sum.gauge * magnitude(factor)};
}
template <class R>
OPBOUND_HD GaugedSum<R> operator/(const GaugedSum<R>& sum, const R& divisor) {
  return {sum.value / divisor, sum.gauge / magnitude(divisor)};
}

}  // namespace opbound
