// Tallies: what they count, and that neither threads nor the order of elements change a bit.
#include "bounds/tally.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ops/team.hpp"
#include "reference/certify.hpp"

namespace opbound {
namespace {

std::vector<Judgement> judgements(std::size_t count) {
  std::mt19937_64 random(3);
  std::vector<Judgement> all;
  for (std::size_t i = 0; i < count; ++i) {
    Judgement j;
    j.verdict = random() % 50 == 0 ? Verdict::vacuous : Verdict::within;
    j.ratio = static_cast<double>(random() % 1000) / 1000;
    j.error_ulp = static_cast<double>(random() >> 40) * 0x1p-25 - 0.25;
    j.acceptable = static_cast<double>(random() % 3 + 1);
    all.push_back(j);
  }
  return all;
}

Tally tally_of(const std::vector<Judgement>& all, int level_length) {
  std::vector<Tally> runs;
  const auto count = std::ssize(all);
  for (std::int64_t r = 0; r < runs_of(count); ++r)
    runs.push_back(tally_run(HostTeam<team_width>{}, r, count, [&](std::int64_t i) {
      Tally one;
      one.take(all[static_cast<std::size_t>(i)], i, 1);
      return one;
    }));
  EXPECT_GE(std::ssize(runs), level_length);
  return merged(std::move(runs));
}

TEST(Tally, CountsAndFindsTheWorst) {
  std::vector<Judgement> all = judgements(9000);
  all[5000].verdict = Verdict::exceeds;
  all[5000].ratio = 1.5;
  all[7000] = all[5000];  // the smaller index is told
  const Tally t = tally_of(all, 3);
  std::uint64_t vacuous = 0;
  double sum = 0;
  for (const Judgement& j : all) {
    vacuous += j.verdict == Verdict::vacuous ? 1 : 0;
    sum += std::fabs(j.error_ulp);
  }
  EXPECT_EQ(t.exceeds, 2U);
  EXPECT_EQ(t.vacuous, vacuous);
  EXPECT_EQ(t.checked(), all.size());
  EXPECT_EQ(t.worst, 5000);
  EXPECT_EQ(t.worst_ratio, 1.5);
  EXPECT_EQ(t.error_sum, sum);  // multiples of 2^-25: sums are exact
}

TEST(Tally, AnUndecidedElementIsWorseThanAnyThatPasses) {
  std::vector<Judgement> all = judgements(10);
  all[4].verdict = Verdict::undecided;
  all[4].ratio = 0;
  EXPECT_EQ(tally_of(all, 1).worst, 4);
}

TEST(Tally, DoubtfulErrorsAreNotTold) {
  std::vector<Judgement> all = judgements(10);
  for (Judgement& j : all) j.error_doubt_ulp = 2;
  const Tally t = tally_of(all, 1);
  EXPECT_EQ(t.numbers, 0U);
  EXPECT_EQ(t.error_max, 0);
  EXPECT_EQ(t.checked(), 10U);
}

TEST(Tally, HashesTellTensorsApart) {
  std::uint64_t hash = 0, swapped = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    hash += element_hash(i, static_cast<std::uint64_t>(i * i));
    const std::int64_t other = i == 3 ? 4 : i == 4 ? 3 : i;  // two elements exchanged
    swapped += element_hash(i, static_cast<std::uint64_t>(other * other));
  }
  EXPECT_NE(hash, swapped);
  EXPECT_EQ(hash_text(0x0123456789abcdef), "sum64:0123456789abcdef");
}

}  // namespace
}  // namespace opbound
