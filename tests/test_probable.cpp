// Binomial tails against exact sums, and tests of masks that are right and of masks that are not.
#include "bounds/probable.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/philox.hpp"
#include "reference/mpfr.hpp"

namespace opbound {
namespace {

TEST(DropProbability, IsThatOfTheComparison) {
  EXPECT_EQ(drop_probability(0.1, 8), 26.0 / 256);
  EXPECT_EQ(drop_probability(0.1, 16), 6554.0 / 65536);
  EXPECT_EQ(drop_probability(0.5, 8), 0.5);
  EXPECT_EQ(drop_probability(0, 8), 0);
  EXPECT_EQ(drop_probability(1, 32), 1);
  EXPECT_EQ(drop_probability(1e-12, 32), 0x1p-32);
  EXPECT_EQ(drop_probability(0.1, 32), 429496730 * 0x1p-32);
}

/// P(X <= k) for k = 0 ... n: with p = a / 2^8 every term has at most 9 n bits, and is exact here.
std::vector<double> exact_tails(long n, double p) {
  const PrecisionScope scope(9 * n + 64);
  const auto number = [](double x) { return from<Mpfr>(x); };
  const auto power = [](double x, long k) {
    Mpfr result = from<Mpfr>(x);
    mpfr_pow_si(result.get(), result.get(), k, MPFR_RNDN);
    return result;
  };
  std::vector<double> tails;
  Mpfr sum, coefficient = number(1);
  for (long k = 0; k <= n; ++k) {
    sum = sum + coefficient * power(p, k) * power(1 - p, n - k);
    coefficient =
        coefficient * number(static_cast<double>(n - k)) / number(static_cast<double>(k + 1));
    tails.push_back(to_double(sum));
  }
  return tails;
}

TEST(BinomialTail, IsTheExactSumRoundedUp) {
  for (const double p : {0.5, 26.0 / 256, 1.0 / 256, 255.0 / 256, 0.25})
    for (const long n : {1L, 2L, 7L, 16L, 40L, 300L, 2000L}) {
      const auto tails = exact_tails(n, p);
      for (long k = 0; k < n; ++k) {
        const double exact = tails[static_cast<std::size_t>(k)];
        const double above = probability_at_least(n - k, n, 1 - p);  // the mirror image
        for (const double got : {probability_at_most(k, n, p), above}) {
          ASSERT_GE(got, exact * (1 - 0x1p-50)) << k << " of " << n << " at " << p;
          ASSERT_LE(got, exact < 0.5 ? exact * (1 + 0x1p-29) + 0x1p-999 : 1)
              << k << " of " << n << " at " << p;
        }
      }
    }
}

TEST(BinomialTail, HasItsEnds) {
  EXPECT_EQ(probability_at_most(-1, 10, 0.5), 0);
  EXPECT_EQ(probability_at_most(10, 10, 0.5), 1);
  EXPECT_EQ(probability_at_least(0, 10, 0.5), 1);
  EXPECT_EQ(probability_at_least(11, 10, 0.5), 0);
  EXPECT_EQ(probability_at_most(3, 10, 0), 1);
  EXPECT_EQ(probability_at_most(3, 10, 1), 0);
  EXPECT_EQ(p_value({0, 0, 0.5}), 1);
  EXPECT_EQ(p_value({10, 10, 1}), 1);
  EXPECT_EQ(p_value({9, 10, 1}), 0);
}

// The false-alarm rate of the test itself: P(p_value <= alpha) <= alpha, summed over all counts.
TEST(EqualTailedTest, AlarmsAtMostAsOftenAsStated) {
  for (const double p : {0.5, 26.0 / 256, 255.0 / 256})
    for (const std::int64_t n : {10, 50, 200})
      for (const double alpha : {0.1, 0.01, 1e-4}) {
        const auto tails = exact_tails(n, p);
        double rate = 0;
        for (std::int64_t k = 0; k <= n; ++k) {
          const auto at = static_cast<std::size_t>(k);
          if (p_value({k, n, p}) <= alpha) rate += tails[at] - (k > 0 ? tails[at - 1] : 0);
        }
        EXPECT_LE(rate, alpha * (1 + 0x1p-30)) << n << " at " << p;
      }
}

std::vector<std::uint8_t> bits(std::uint64_t seed, std::uint64_t offset, std::size_t count,
                               double drop) {
  std::vector<std::uint8_t> mask(count);
  for (std::size_t i = 0; i < count; ++i)
    mask[i] = static_cast<double>(philox_word(seed, offset, i)) * 0x1p-32 >= drop ? 1 : 0;
  return mask;
}

constexpr std::size_t places = 1 << 18;

TEST(MaskTests, PassIndependentBits) {
  const double keep = 1 - drop_probability(0.1, 32);
  const auto mask = bits(1, 2, places, 0.1), other = bits(1, 3, places, 0.1);
  const Family family{1e-9, 5};
  EXPECT_FALSE(family.rejects(kept_places(mask, keep)));
  EXPECT_FALSE(family.rejects(unequal_neighbours(mask, keep)));
  EXPECT_FALSE(family.rejects(equal_at_lag(mask, 1, keep)));
  EXPECT_FALSE(family.rejects(equal_at_lag(mask, 64, keep)));
  EXPECT_FALSE(family.rejects(equal_places(mask, other, keep)));
}

TEST(MaskTests, RejectWhatIsWrong) {
  const double keep = 1 - drop_probability(0.1, 32);
  const Family family{1e-9, 5};
  const auto mask = bits(1, 2, places, 0.1);
  EXPECT_TRUE(family.rejects(kept_places(bits(1, 2, places, 0.11), keep)));
  EXPECT_TRUE(family.rejects(equal_places(mask, mask, keep)));  // reused
  auto repeated = mask;
  for (std::size_t i = 0; i < places; ++i) repeated[i] = mask[i / 2 * 2];
  EXPECT_TRUE(family.rejects(unequal_neighbours(repeated, keep)));
  for (std::size_t i = 0; i < places; ++i) repeated[i] = mask[i % 64];  // one row for all
  EXPECT_TRUE(family.rejects(equal_at_lag(repeated, 64, keep)));
  EXPECT_FALSE(family.rejects(equal_at_lag(mask, 64, keep)));
}

// Disjoint pairs only: with i mod 2 lag < lag no place is in two of them.
TEST(MaskTests, PairsAreDisjoint) {
  const std::vector<std::uint8_t> mask(20, 1);
  EXPECT_EQ(equal_at_lag(mask, 1, 0.5).trials, 10);
  EXPECT_EQ(equal_at_lag(mask, 3, 0.5).trials, 9);  // 0 1 2, 6 7 8, 12 13 14
  EXPECT_EQ(equal_at_lag(mask, 10, 0.5).trials, 10);
  EXPECT_EQ(equal_at_lag(mask, 19, 0.5).trials, 1);
  EXPECT_EQ(equal_at_lag(mask, 20, 0.5).trials, 0);
  EXPECT_EQ(unequal_neighbours(mask, 0.5).trials, 10);
}

}  // namespace
}  // namespace opbound
