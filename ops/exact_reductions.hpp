// Reductions over exact values, which do not round: any order gives the same.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/team.hpp"

namespace opbound {

/// An exact value, as io.exact reads it, and its place.
struct Placed {
  double value = -std::numeric_limits<double>::infinity();
  std::int64_t index = std::numeric_limits<std::int64_t>::max();

  OPBOUND_HD bool is_finite() const { return value - value == 0; }
};

/// The largest one; the first of equals; NaN if any is NaN.
struct Largest {
  OPBOUND_HD static Placed combine(Placed a, Placed b) {
    const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
    if (a.value > b.value) return a;
    if (b.value > a.value) return b;
    return a.index < b.index ? a : b;
  }
  template <class T>
  OPBOUND_HD static T empty() {
    return {};
  }
  template <class F>
  static Placed any_order(std::int64_t n, F term) {
    return HostTeam<1>{}.reduce<Largest>(n, term);
  }
};

/// A count, or any sum of integers.
struct Count {
  OPBOUND_HD static std::int64_t combine(std::int64_t a, std::int64_t b) { return a + b; }
  template <class T>
  OPBOUND_HD static T empty() {
    return 0;
  }
  template <class F>
  static std::int64_t any_order(std::int64_t n, F term) {
    return HostTeam<1>{}.reduce<Count>(n, term);
  }
};

/// The place and value of the largest of x(0) ... x(n - 1).
template <class Team, class X>
OPBOUND_HD Placed largest_of(const Team& team, std::int64_t n, X x) {
  return team.template reduce<Largest>(n, [&](std::int64_t j) { return Placed{x(j), j}; });
}

/// How many of 0 ... n - 1 hold.
template <class Team, class F>
OPBOUND_HD std::int64_t count_of(const Team& team, std::int64_t n, F holds) {
  return team.template reduce<Count>(
      n, [&](std::int64_t i) { return std::int64_t{holds(i) ? 1 : 0}; });
}

/// The sum of term(i) over those of 0, 1, 2, ... that hold, `found` of them, in this order: a lane
/// walks over them once.
template <class Team, class P, class F>
OPBOUND_HD auto sum_where(const Team& team, std::int64_t found, P holds, F term) {
  std::int64_t i = -1;
  return team.serial_sum(found, [&](std::int64_t) {
    do ++i;
    while (!holds(i));
    return term(i);
  });
}

}  // namespace opbound
