// What the kernels of normalisations have in common.
#pragma once

#include "ops/number.hpp"

namespace opbound {

/// What multiplies xhat: gamma, or offset + gamma.
template <class T>
OPBOUND_HD T norm_weight(double offset, T gamma) {
  return offset == 0 ? gamma : from<T>(offset) + gamma;
}

/// (sum of n terms) / n, or times fl(1/n).
template <class T>
OPBOUND_HD T norm_mean(bool by_reciprocal, T sum, std::int64_t n) {
  const T count = from<T>(static_cast<double>(n));
  return by_reciprocal ? sum * (from<T>(1.0) / count) : sum / count;
}

/// f(stored), where stored(v) is v as it is read again from the format: whether that rounds at all
/// is asked outside of f's loops.
template <class F>
OPBOUND_HD void with_storing(const Format& format, F f) {
  if (format.kind == Kind::fp64)
    f([](const auto& v) { return v; });
  else
    f([&](const auto& v) { return stored_in(format, v); });
}

}  // namespace opbound
