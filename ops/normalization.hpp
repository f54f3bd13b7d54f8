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

}  // namespace opbound
