// Tracked values that are stored and read again, and the choice between two by the sign of a third.
#include <gtest/gtest.h>

#include <limits>

#include "bounds/tracked.hpp"

namespace opbound {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class T, class K = Own>
Tracked<T, K> around(double value, double radius, double spread = 0) {
  auto x = from<Tracked<T, K>>(value);
  x.radius = radius;
  if constexpr (K::foreign) x.spread = spread;
  return x;
}

TEST(StoredStochastically, IsWithinOneUlp) {
  for (const std::uint32_t random : {0U, 0x40000000U, 0xffffffffU}) {
    const auto own = stored_stochastically_in(bf16, around<float>(1 + 0x1p-9, 0x1p-30), random);
    EXPECT_EQ(to_double(own), random == 0 ? 1 + 0x1p-7 : 1.0);
    EXPECT_GE(own.radius, abs(to_double(own) - (1 + 0x1p-9)) + 0x1p-30);
    EXPECT_LT(own.radius, 0x1p-7);
    const auto any = stored_stochastically_in(bf16, around<float, Foreign>(1 + 0x1p-9, 0), random);
    EXPECT_GE(any.radius, 0x1p-7);
    EXPECT_LE(any.radius, 0x1.1p-7);
  }
  EXPECT_EQ(stored_stochastically_in(bf16, around<float>(1.5, 0), 7).radius, 0);
  EXPECT_EQ(stored_stochastically_in(fp32, around<float>(1 + 0x1p-20, 0), 7).radius, 0);
}

TEST(WhereNegative, IsOneOfTwoWhereTheSignIsCertainAndCoversBothElsewhere) {
  const auto a = around<float>(3, 0x1p-20), b = around<float>(5, 0x1p-10);
  EXPECT_EQ(to_double(where_negative(around<float>(-1, 0.5), a, b)), 3);
  EXPECT_EQ(where_negative(around<float>(-1, 0.5), a, b).radius, 0x1p-20);
  EXPECT_EQ(to_double(where_negative(around<float>(1, 0.5), a, b)), 5);
  EXPECT_EQ(to_double(where_negative(around<float>(0, 0), a, b)), 5);
  EXPECT_EQ(where_negative(around<float>(0, 0), a, b).radius, 0x1p-10);
  const auto unknown = where_negative(around<float>(1, 2), a, b);
  EXPECT_EQ(to_double(unknown), 5);
  EXPECT_GE(unknown.radius, 2 + 0x1p-10);
  EXPECT_LT(unknown.radius, 2.01);
  // Theirs may be one of the two while the exact one is the other.
  using Theirs = Tracked<float, Foreign>;
  Theirs x(1), near(-1), far(-1);
  x.radius = 2;
  near.radius = 1;
  near.spread = 2;
  EXPECT_GE(where_negative(x, near, far).radius, 2);
  const auto infinity = around<float>(infinite, 0);
  EXPECT_EQ(where_negative(around<float>(1, 2), a, infinity).radius, infinite);
}

TEST(StoredIn, TheSameValueIsStoredAlikeByAll) {
  using Theirs = Tracked<float, Foreign>;
  const Theirs same(1 + 0x1p-20F);
  const Theirs stored = stored_in(bf16, same);
  EXPECT_EQ(to_double(stored), 1);
  EXPECT_EQ(stored.spread, 0);
  EXPECT_GE(stored.radius, 0x1p-20);
  EXPECT_LT(stored.radius, 0x1.01p-20);
  Theirs other = same;
  other.spread = 0x1p-22;
  EXPECT_GT(stored_in(bf16, other).radius, 0x1p-9) << "theirs may lie beyond a midpoint";
}

TEST(StoredIn, ARangeWiderThanTheTypesOverflowsWhenItIsReadAgain) {
  const auto x = around<Rounded<fp16>>(65504, 0);
  EXPECT_EQ(stored_in(bf16, x).radius, infinite);  // 65536 in bf16, infinity in fp16
}

}  // namespace
}  // namespace opbound
