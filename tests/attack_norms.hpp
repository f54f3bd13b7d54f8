// Rows and attributes where normalisation breaks.
#pragma once

#include <cmath>
#include <vector>

#include "tests/attack_perturbed.hpp"

namespace opbound::attack {

/// A mean far above sigma, near constant, outliers, tiny, huge.
inline std::vector<double> norm_row(Random& random, const Format& f, std::int64_t n) {
  std::vector<double> x;
  const int family = whole(random, 0, 7);
  const double range = std::min(f.digits, 24) / 3.4, size = 1 + share(random);
  const bool is_moved = family == 1 || family == 2;
  const double offset = is_moved ? std::pow(10, range * share(random)) : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double v = 2 * share(random) - 1;
    if (family == 2) v *= 1e-2;
    if (family == 3) v = size;
    if (family == 4) v *= chance(random, 20) ? 100 : 0.01;
    if (family == 5) v *= f == fp16 ? 1e-4 : 1e-15;
    if (family == 6) v *= f == fp16 ? 8 : 1e12;
    if (family == 7) v = i == 0 ? 1 : f.unit_roundoff() * (chance(random, 8) ? 3 : 1);
    x.push_back(round_to(f, v + offset));
  }
  return x;
}

template <class A>
void choose_norm(Random& random, A& a) {
  constexpr std::array eps{1e-3, 1e-5, 1e-12};
  constexpr std::array held{fp64, fp32, bf16, fp16};
  a.eps = pick(random, eps);
  a.eps_format = pick(random, held);
  a.xhat_format = chance(random, 4) ? bf16 : fp64;
  a.weight_offset = chance(random, 2) ? 1 : 0;
}

}  // namespace opbound::attack
