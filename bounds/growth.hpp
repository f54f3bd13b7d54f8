// How roundings grow (Higham 2002, section 3.1), and what theorems assume of a kernel.
#pragma once

#include "bounds/tracked.hpp"

namespace opbound {

/// P(k, u) = (1 + u)^k - 1: the relative growth of k roundings; no restriction on k u. Rounded up.
inline double growth(double k, double u) { return expm1(k * log1p(u)) * (1 + 0x1p-48); }

/// What a theorem may assume of a kernel: its arithmetic, its functions, its sums.
struct Arithmetic {
  double u;    ///< unit roundoff of the compute format
  double eta;  ///< half its smallest subnormal
  FunctionErrors functions;
  /// The relative growth of a sum of n terms, over the sum of their magnitudes.
  double (*sum_growth)(std::int64_t n, double u);

  double relative(Function f) const { return (2 * functions.of(f) + 1) * u; }
  double absolute(Function f) const { return (2 * functions.of(f) + 1) * eta; }
};

}  // namespace opbound
