// The logarithm of a row's sum of exponentials, for kernels that know where its maximum is.
#pragma once

#include "ops/exact_reductions.hpp"
#include "ops/number.hpp"

namespace opbound {

/// log sum exp(x_j) = peak + log_sum
template <class T>
struct LogSum {
  T peak, log_sum;
};

/// Of n numbers, x(top.index) the largest: log of the sum of exp(x - peak), or log1p of the sum
/// over all but that one. log1p takes exp(0) = 1 out of the sum, so that its peak must be the
/// number itself; otherwise the result does not depend on what is subtracted.
template <class Team, class X>
OPBOUND_HD auto log_sum_exp(const Team& team, std::int64_t n, X x, const Placed& top,
                            bool has_log1p) {
  using T = decltype(x(std::int64_t{0}));
  const T peak = has_log1p ? x(top.index) : pivot(x(top.index));
  const auto power = [&](std::int64_t j) { return exp(x(j) - peak); };
  const T log_sum =
      has_log1p
          ? log1p(team.sum(n - 1, [&](std::int64_t k) { return power(k + (k >= top.index)); }))
          : log(team.sum(n, power));
  return LogSum<T>{peak, log_sum};
}

}  // namespace opbound
