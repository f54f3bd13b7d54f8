// Two runs compared: every class of change, and which records belong together.
#include "reports/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/compared_records.hpp"

namespace opbound {
namespace {

using Records = std::vector<Record>;

/// The one check that two records make.
ComparedCheck compared(const Record& before, const Record& after) {
  static Records old_run, new_run;  // a comparison points into them
  old_run = {before};
  new_run = {after};
  const Comparison c = compare(old_run, new_run);
  EXPECT_EQ(c.checks.size(), 1U);
  return c.checks.at(0);
}

Change change(const Record& before, const Record& after) { return compared(before, after).change; }

TEST(Compare, EqualHashesAreTheSameBits) {
  EXPECT_EQ(change(check_record(), check_record()), Change::same_bits);
  Record other_bound = check_record();
  other_bound.ratio = 0.9;  // of another bound: the bits are the same, so is the kernel
  EXPECT_EQ(change(check_record(), other_bound), Change::same_bits);
  Record untold = check_record();
  untold.output_hash.clear();
  EXPECT_EQ(change(untold, untold), Change::same_error);
}

TEST(Compare, OtherBitsWithEveryStatisticAlikeAreTheSameError) {
  EXPECT_EQ(change(check_record(), with_other_bits(check_record())), Change::same_error);
}

/// In the order in which they decide: each one outweighs all that follow.
TEST(Compare, TheFirstStatisticThatDiffersDecides) {
  using Alter = void (*)(Record&);
  const std::vector<std::pair<std::string, Alter>> alterations{
      {"NaN or inf", [](Record& r) { r.nonfinite_mismatch = 3; }},
      {"elements that exceed",
       [](Record& r) {
         --r.counts.within;
         ++r.counts.exceeds;
       }},
      {"max ulp", [](Record& r) { r.error_ulp_max = *r.error_ulp_max * 2; }},
      {"ratio", [](Record& r) { r.ratio = *r.ratio * 2; }},
      {"bias", [](Record& r) { r.bias_ulp = *r.bias_ulp * -2; }},  // its size counts
      {"mean ulp", [](Record& r) { r.error_ulp_mean = *r.error_ulp_mean * 2; }},
      {"ulp histogram",
       [](Record& r) {
         r.ulp_histogram.counts = {50, 40, 10};
       }},
  };
  Record base = check_record();
  base.verdict = Verdict::exceeds;
  base.counts.exceeds = 1;
  --base.counts.within;
  for (std::size_t i = 0; i < alterations.size(); ++i) {
    Record small = with_other_bits(base), large = base;
    alterations[i].second(large);
    for (std::size_t k = i + 1; k < alterations.size(); ++k) alterations[k].second(small);
    for (const auto& [before, after, expected] :
         {std::tuple(small, large, Change::worse), {large, small, Change::better}}) {
      const ComparedCheck check = compared(before, after);
      EXPECT_EQ(check.change, expected) << alterations[i].first;
      EXPECT_EQ(check.decided_by, alterations[i].first);
    }
  }
}

TEST(Compare, TheLeastDifferenceCounts) {
  Record after = with_other_bits(check_record());
  after.error_ulp_max = std::nextafter(*after.error_ulp_max, 1e9);
  EXPECT_EQ(change(check_record(), after), Change::worse);
}

TEST(Compare, AnAbsentStatisticSaysNothing) {
  Record after = with_other_bits(check_record());
  after.error_ulp_max.reset();
  after.ulp_histogram = {};
  EXPECT_EQ(change(check_record(), after), Change::same_error);
}

TEST(Compare, WhatHeldAndNowExceedsOrFailedIsBroken) {
  const Record held = check_record();
  const Record allowed = with_verdict(held, Verdict::vacuous, "k u is 2");
  for (const Record& before : {held, allowed})
    for (const Verdict v : {Verdict::exceeds, Verdict::failed}) {
      EXPECT_EQ(change(before, with_verdict(held, v)), Change::contract_broken);
      EXPECT_EQ(change(with_verdict(held, v), before), Change::better);
    }
}

TEST(Compare, AnotherVerdictOutweighsEveryStatistic) {
  const auto is = [](Verdict before, Verdict after) {
    Record a = with_verdict(check_record(), before), b = with_verdict(check_record(), after);
    a.error_ulp_max = 100;  // the smaller error with the worse verdict
    const ComparedCheck check = compared(a, with_other_bits(b));
    EXPECT_EQ(check.decided_by, "verdict");
    return check.change;
  };
  EXPECT_EQ(is(Verdict::within, Verdict::undecided), Change::worse);
  EXPECT_EQ(is(Verdict::within, Verdict::vacuous), Change::worse);
  EXPECT_EQ(is(Verdict::undecided, Verdict::exceeds), Change::worse);  // it had promised nothing
  EXPECT_EQ(is(Verdict::vacuous, Verdict::failed), Change::worse);
  EXPECT_EQ(is(Verdict::exceeds, Verdict::failed), Change::worse);
  EXPECT_EQ(is(Verdict::exceeds, Verdict::undecided), Change::better);
}

TEST(Compare, SkippedAndAbsentChecksAreCountedApart) {
  Record skipped = with_verdict(check_record(), Verdict::skipped), other = check_record();
  other.op = "softmax";
  EXPECT_EQ(change(skipped, check_record()), Change::skipped);
  const Records before{check_record(), other}, after{skipped};
  const Comparison c = compare(before, after);
  EXPECT_EQ(c.counts[Change::skipped], 1U);
  EXPECT_EQ(c.newly_skipped, 1U);
  EXPECT_EQ(c.counts[Change::only_in_old], 1U);
  EXPECT_EQ(c.exit_code(), exit_clean);
}

/// A check that is new has no past to compare with; that it fails must not be missed.
TEST(Compare, AFindingWithoutAPastIsAFinding) {
  Record added = with_verdict(check_record(), Verdict::exceeds);
  added.op = "softmax";
  const Records old_run{check_record()}, new_run{check_record(), added};
  const Comparison c = compare(old_run, new_run);
  EXPECT_EQ(c.counts[Change::only_in_new], 1U);
  EXPECT_EQ(c.new_findings, 1U);
  EXPECT_EQ(c.exit_code(), exit_found);
  const Records skipped{with_verdict(check_record(), Verdict::skipped)},
      failing{with_verdict(check_record(), Verdict::undecided)};
  EXPECT_EQ(compare(skipped, failing).exit_code(), exit_found);
}

TEST(Compare, ExitCodes) {
  Record smaller = with_other_bits(check_record());
  smaller.error_ulp_max = 0.1;
  const auto code = [](const Record& before, const Record& after) {
    const Records a{before}, b{after};
    return compare(a, b).exit_code();
  };
  EXPECT_EQ(code(check_record(), check_record()), exit_clean);
  EXPECT_EQ(code(check_record(), smaller), exit_clean);
  EXPECT_EQ(code(smaller, check_record()), exit_found);
  EXPECT_EQ(code(check_record(), with_verdict(check_record(), Verdict::failed)), exit_found);
  const Record known = with_verdict(check_record(), Verdict::exceeds);
  EXPECT_EQ(code(known, known), exit_clean);  // found before, and no worse
}

/// What a kernel varies by from call to call is measured by calling it again, not typed in.
TEST(Compare, OfRepeatedChecksTheWorstCounts) {
  Records before, after;
  for (const double error : {0.5, 0.9, 0.7}) {
    before.push_back(with_other_bits(check_record(), std::to_string(error)));
    before.back().error_ulp_max = error;
  }
  const auto with = [&](double error) {
    after = {with_other_bits(check_record(), "new")};
    after.back().error_ulp_max = error;
    return compare(before, after).checks.at(0).change;
  };
  EXPECT_EQ(with(0.8), Change::better);
  EXPECT_EQ(with(0.9), Change::same_error);
  EXPECT_EQ(with(1.0), Change::worse);
  // the same bits as one of several calls are not those of the check
  after = {before[1]};
  EXPECT_EQ(compare(before, after).checks.at(0).change, Change::same_error);
  after = before;
  std::ranges::reverse(after);
  EXPECT_EQ(compare(before, after).checks.at(0).change, Change::same_error);
}

TEST(Compare, EveryPartOfACheckTellsItFromOthers) {
  using Alter = void (*)(Record&);
  const std::vector<Alter> alterations{
      [](Record& r) { r.kind = CheckKind::exact; },
      [](Record& r) { r.op = "softmax"; },
      [](Record& r) { r.part = "dx"; },
      [](Record& r) { r.direction = "backward_local"; },
      [](Record& r) { r.variant = "tanh"; },
      [](Record& r) { r.precision = "fp32"; },
      [](Record& r) {
        r.attributes = {{"approximate", "tanh"}};
      },
      [](Record& r) {
        r.inputs.shape = {{"n", 65}};
      },
      [](Record& r) { r.inputs.input = "x=cancellation"; },
      [](Record& r) { r.inputs.seed = 2; },
      [](Record& r) {
        r.in_situ = InSitu{1, 2, 3, 4};
      },
      [](Record& r) { r.ranks = 8; },
      [](Record& r) { r.schedule = "ring"; },
  };
  for (std::size_t i = 0; i < alterations.size(); ++i) {
    Records before{check_record()}, after{check_record()};
    alterations[i](after[0]);
    EXPECT_EQ(compare(before, after).checks.size(), 2U) << i;
  }
}

TEST(Compare, FellowsAreFoundWhereOneThingDiffersAndThereIsNoChoice) {
  using Alter = void (*)(Record&);
  const std::vector<std::pair<std::string, Alter>> alterations{
      {"contract", [](Record& r) { r.contract = "erfc, any order"; }},
      {"provider", [](Record& r) { r.provider = "torch"; }},
      {"device", [](Record& r) { r.device = "NVIDIA H200"; }},
      {"input", [](Record& r) { r.inputs.input = "x=file(new.npy, tensor=x)"; }},
  };
  for (const auto& [name, alter] : alterations) {
    Records before{check_record()}, after{check_record()};
    before[0].inputs.input = "x=file(old.npy, tensor=x)";
    after[0].inputs.input = before[0].inputs.input;
    alter(after[0]);
    const Comparison c = compare(before, after);
    ASSERT_EQ(c.checks.size(), 1U) << name;
    const auto differences = c.differences();
    ASSERT_EQ(differences.size(), 1U) << name;
    EXPECT_EQ(differences[0].name, name);
  }
  // both providers are there before: the third has no fellow
  Records before(2, check_record()), after(2, check_record());
  before[1].provider = after[1].provider = "torch";
  after.push_back(check_record());
  after.back().provider = "cudnn";
  Comparison c = compare(before, after);
  EXPECT_EQ(c.counts[Change::same_bits], 2U);
  EXPECT_EQ(c.counts[Change::only_in_new], 1U);
  // two that might be the fellow of one
  before = {check_record()};
  after.erase(after.begin());
  c = compare(before, after);
  EXPECT_EQ(c.counts.compared(), 0U);
}

/// What fails or is skipped as a whole has one record, without a part and a contract.
TEST(Compare, AWholeCaseStandsForAllOfItsParts) {
  Records parts(2, check_record());
  parts[1].part = "dgamma";
  parts[1].kind = CheckKind::exact;
  for (const auto& [verdict, forth, back] :
       {std::tuple(Verdict::failed, Change::contract_broken, Change::better),
        {Verdict::skipped, Change::skipped, Change::skipped}}) {
    Records whole{with_verdict(check_record(), verdict)};
    whole[0].part.clear();
    whole[0].contract.clear();
    EXPECT_EQ(compare(parts, whole).counts[forth], 2U);
    EXPECT_EQ(compare(whole, parts).counts[back], 2U);
    EXPECT_EQ(compare(whole, whole).checks.size(), 1U);
    EXPECT_EQ(compare(parts, whole).checks[1].shown().part, "dgamma");
  }
}

TEST(Compare, AnotherGpuIsTheSameKindOfDevice) {
  Records before(2, check_record()), after(2, check_record());
  before[1].device = "NVIDIA A100";
  after[1].device = "NVIDIA H200";
  const Comparison c = compare(before, after);
  EXPECT_EQ(c.counts[Change::same_bits], 2U);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(text_of(c.differences()[0], "->"), "device NVIDIA A100 -> NVIDIA H200");
}

}  // namespace
}  // namespace opbound
