// The concept Number is sufficient for kernels, and each of its demands is needed: both are proved
// when this file compiles.
#include "tests/archetype.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "ops/team.hpp"

namespace opbound {
namespace {

static_assert(Number<Archetype>);

template <int... Abilities>
constexpr int numbers_with_one_ability_missing(std::integer_sequence<int, Abilities...>) {
  return (0 + ... + Number<Skeleton<static_cast<Ability>(Abilities)>>);
}
static_assert(numbers_with_one_ability_missing(
                  std::make_integer_sequence<int, static_cast<int>(Ability::count)>{}) == 0);

static_assert(!Number<int>);
static_assert(!Number<Format>);

/// A softmax row's largest probability, as kernels are written.
template <Number T>
T largest_probability(const T* x, std::int64_t n) {
  const HostTeam<4> team;
  const T top = pivot(team.max(n, [&](std::int64_t i) { return x[i]; }));
  const T total = team.sum(n, [&](std::int64_t i) { return exp(x[i] - top); });
  return from<T>(1.0) / total;
}

TEST(Archetype, RunsThroughATeam) {
  const Archetype nothing[3];
  (void)largest_probability(nothing, 3);
  const double equal[4] = {5, 5, 5, 5};
  EXPECT_EQ(largest_probability(equal, 4), 0.25);
}

}  // namespace
}  // namespace opbound
