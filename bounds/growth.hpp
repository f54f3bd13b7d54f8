// How roundings grow (Higham 2002, section 3.1), and what theorems assume of a kernel.
#pragma once

#include "bounds/tracked.hpp"
#include "ops/team.hpp"

namespace opbound {

/// P(k, u) = (1 + u)^k - 1: the relative growth of k roundings; no restriction on k u. Rounded up.
OPBOUND_HD inline double growth(double k, double u) { return expm1(k * log1p(u)) * (1 + 0x1p-48); }

/// What a theorem may assume of a kernel: its arithmetic, its functions, its sums.
struct Arithmetic {
  double u;    ///< unit roundoff of the compute format
  double eta;  ///< half its smallest subnormal
  FunctionErrors functions;
  bool any_order;  ///< of sums; else they are a team's own

  /// The relative growth of a sum of n terms, over the sum of their magnitudes (bounds/README.md
  /// 0.4: n u in any order; by its height in a known one).
  OPBOUND_HD double sum_growth(std::int64_t n, double unit) const {
    return any_order ? static_cast<double>(n) * unit
                     : growth(static_cast<double>(sum_height(n, team_width)), unit);
  }

  OPBOUND_HD double relative(Function f) const { return (2 * functions.of(f) + 1) * u; }
  OPBOUND_HD double absolute(Function f) const { return (2 * functions.of(f) + 1) * eta; }
};

}  // namespace opbound
