// What is known of a number that overflows, or may: its sign, and that it is large.
#include "bounds/beyond.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/tracked.hpp"
#include "ops/io.hpp"

namespace opbound {
namespace {

constexpr double infinite = detail::infinite;

/// A mask of the lowest number: the score overflows in some executions, its weight is 0 in all.
template <class K>
void expect_masked_weight_is_known() {
  using F = Tracked<float, K>;
  const F lowest = from<F>(-fp32.largest()), score = from<F>(-1e32);
  const F masked = score + lowest;
  EXPECT_TRUE(detail::is_beyond(masked));
  EXPECT_GE(masked.radius, 0x1p126);
  const F top = max(masked, from<F>(3.0));
  EXPECT_EQ(to_double(top), 3);
  EXPECT_EQ(top.radius, 0);
  const F weight = exp(masked - top);
  EXPECT_EQ(to_double(weight), 0);
  EXPECT_LE(weight.radius, 0x1p-400);
  EXPECT_EQ(detail::claimed_radius(masked), infinite);
  EXPECT_TRUE(std::isinf((masked - masked).radius));
  EXPECT_LE((top / masked).radius, 0x1p-124);  // 3 over a quarter of the largest at most
  EXPECT_TRUE(std::isinf(rsqrt(-masked).radius));
  EXPECT_EQ(max(masked, lowest).radius, 0);  // infinite in every execution, so below the lowest
}
TEST(Beyond, MaskedWeightIsKnown) {
  expect_masked_weight_is_known<Own>();
  expect_masked_weight_is_known<Foreign>();
}

/// Ours is stored as an infinity; another execution's, just above the least, may be rounded below.
TEST(Beyond, AStoreMayRoundBelowTheLeast) {
  using F = Tracked<float, Foreign>;
  const F stored = stored_in(bf16, detail::beyond<float, Foreign>(1, false, 1e38));
  EXPECT_TRUE(detail::is_beyond(stored));
  EXPECT_LE(stored.radius, round_to(bf16, 1e38));
}

/// What a theorem made of an infinity's radius is an error, not a magnitude; scratch is kept.
TEST(Beyond, AResultReadAgainIsNotTakenForOne) {
  double value = infinite, radius = 3e38, spread = 3e38;
  TrackedIo<float, Foreign> io{};
  io.tracked[0] = {&value, &radius, &spread};
  EXPECT_EQ(io.get(0, 0).radius, infinite);
  io.tracked[0].is_scratch = true;
  EXPECT_TRUE(detail::is_beyond(io.get(0, 0)));
}

/// x / (1 + exp(-x)) where exp overflows: exp is beyond every float, so that the quotient is 0.
template <class K>
void expect_plain_silu_is_known() {
  using F = Tracked<float, K>;
  for (const double x : {-95.0, -200.0, -1e4}) {
    const F at = from<F>(x), grown = exp(-at);
    ASSERT_TRUE(detail::is_beyond(grown));
    EXPECT_LE(grown.radius, std::exp(-x));
    const F y = at / (from<F>(1.0) + grown);
    EXPECT_EQ(to_double(y), 0);
    EXPECT_GE(y.radius, -x / (1 + std::exp(-x)) * (1 - 0x1p-40));
    EXPECT_LE(y.radius, -x / std::exp(-std::max(x, -700.0)) * (1 + 0x1p-18));
  }
  EXPECT_TRUE(std::isinf((from<F>(infinite) / exp(from<F>(200.0))).radius));
}
TEST(Beyond, PlainSiluIsKnown) {
  expect_plain_silu_is_known<Own>();
  expect_plain_silu_is_known<Foreign>();
}

/// An exp so far below the least number that 2 ulp do not make it one is 0 in every execution.
TEST(Beyond, WhatHasVanishedIs0InEveryExecution) {
  using F = Tracked<float, Foreign>;
  const Foreign::Scope scope(cuda_function_errors);
  for (const double x : {-107.0, -200.0, -1e30}) {
    const F w = exp(from<F>(x)), y = from<F>(x) * w;
    EXPECT_EQ(w.spread, 0);
    EXPECT_EQ(y.spread, 0);
    EXPECT_LE(y.radius, std::max(-12 * x * std::exp(x), 0x1p-400));
  }
  EXPECT_GT(exp(from<F>(-104.0)).spread, 0);
}

/// min(1, what overflows) is 1; a divisor that may be 0 says nothing.
TEST(Beyond, OverflowOfAQuotient) {
  using F = Tracked<float, Own>;
  F tiny = from<F>(1e-30);
  const F one = from<F>(1.0), large = from<F>(1e30);
  EXPECT_TRUE(detail::is_beyond(large / tiny));
  EXPECT_EQ(min(large / tiny, one).radius, 0);
  tiny.radius = 2e-30;
  EXPECT_TRUE(std::isinf(min(large / tiny, one).radius));
}

}  // namespace
}  // namespace opbound
