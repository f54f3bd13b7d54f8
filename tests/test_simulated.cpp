// Collectives among simulated ranks: the bits of the op that bounds them, whatever the weather.
#include "distributed/simulated.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/reveal.hpp"
#include "ops/provider.hpp"
#include "tests/collective_case.hpp"

namespace opbound {
namespace {

const std::vector<int> orders = all_orders();

void expect_the_ops_bits(int order, std::int32_t ranks, std::int64_t n, const char* precision,
                         all_reduce::Attributes attributes) {
  attributes.group = 3;
  CollectiveCase c(order, ranks, n, precision, attributes);
  SimulatedRanks simulated(ranks, {.seed = 7, .lost = 0.1});
  simulated.run(c.schedule, c.reducer, c.terms);
  const std::vector<double> expected = c.by_op();
  for (const auto& own : c.terms)
    ASSERT_TRUE(same_bits(c.stored(own), expected))
        << name_of_order(order) << " " << ranks << "x" << n << " " << precision;
}

TEST(SimulatedRanks, EverySchedulesBitsAreTheOps) {
  for (const int order : orders)
    for (const std::int32_t ranks : {1, 2, 3, 5, 8, 13, 16}) {
      if (!refusal({Collective::all_reduce, order, ranks}).empty()) continue;
      for (const std::int64_t n : {1, 2, 7, 40, 61})
        for (const char* precision : {"fp64", "fp32", "bf16", "bf16:fp32:bf16", "e4m3:fp16:e4m3"})
          for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::mean})
            for (const auto divides : {all_reduce::Divides::after, all_reduce::Divides::before})
              for (const auto hop : {all_reduce::Hop::compute, all_reduce::Hop::output})
                if (order != all_reduce::direct || hop == all_reduce::Hop::compute)
                  expect_the_ops_bits(order, ranks, n, precision, {reduction, divides, hop});
    }
}

TEST(SimulatedRanks, ExtremesKeepNaN) {
  for (const int order : orders)
    for (const auto reduction : {all_reduce::Reduction::min, all_reduce::Reduction::max}) {
      all_reduce::Attributes attributes;
      attributes.reduction = reduction;
      CollectiveCase c(order, 8, 61, "fp16:fp32:fp16", attributes, "special");
      SimulatedRanks(8).run(c.schedule, c.reducer, c.terms);
      c.spec.variant = c.prepared.call.variant = all_reduce::any_order;
      const std::vector<double> expected = c.by_op();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double got = c.stored(c.terms.back())[i];
        EXPECT_TRUE(got == expected[i] || (std::isnan(got) && std::isnan(expected[i]))) << i;
      }
    }
}

/// Schedules of 2 to 33 ranks, their tree against what bounds/README.md 5 says of heights.
TEST(SimulatedRanks, TreesHaveTheHeightsThatAreSaid) {
  const auto ceil_log2 = [](std::int64_t n) { return static_cast<int>(std::ceil(std::log2(n))); };
  for (std::int32_t ranks = 2; ranks <= 33; ++ranks)
    for (const int order : orders) {
      const Schedule s{Collective::all_reduce, order, ranks, 4};
      if (!refusal(s).empty()) continue;
      for (std::int32_t c = 0; c < chunk_count(s); ++c) {
        const SumTree tree = tree_of(s, c);
        ASSERT_EQ(std::ssize(tree.nodes), ranks - 1);  // so that every rank counts once
        const std::int64_t h = height(tree);
        const bool halves =
            order == all_reduce::halving_doubling || order == all_reduce::balanced_tree;
        const bool is_chain = order == all_reduce::ring || order == all_reduce::direct;
        EXPECT_TRUE(!is_chain || h == ranks - 1) << ranks;
        EXPECT_TRUE(order != all_reduce::hierarchical || h <= 3 + 2 * ceil_log2((ranks + 3) / 4));
        EXPECT_TRUE(!halves || h == ceil_log2(ranks)) << ranks;
        EXPECT_LE(h, std::max(ranks - 1, 2 * ceil_log2(ranks)));
      }
    }
}

TEST(SimulatedRanks, ShardsAreGatheredAndBroadcastReaches) {
  for (const int order :
       {all_reduce::ring, all_reduce::halving_doubling, all_reduce::balanced_tree}) {
    CollectiveCase c(order, 8, 61, "fp32");
    const Buffers given = c.terms;
    SimulatedRanks simulated(8, {.seed = 3});
    Buffers whole = given;
    simulated.run(c.schedule, c.reducer, whole);
    Schedule s = c.schedule;
    s.collective = Collective::reduce_scatter;
    simulated.run(s, c.reducer, c.terms);
    for (std::int32_t r = 0; r < 8; ++r) {
      const Chunk shard = chunk_of(s, 61, r);
      for (std::int64_t i = 0; i < 61; ++i) {
        double& own = c.terms[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
        const bool is_own = i >= shard.first && i < shard.first + shard.count;
        EXPECT_TRUE(!is_own || own == whole[0][static_cast<std::size_t>(i)]);
        if (!is_own) own = -1e30;
      }
    }
    s.collective = Collective::all_gather;
    simulated.run(s, c.reducer, c.terms);
    for (const auto& own : c.terms) EXPECT_TRUE(same_bits(own, whole[0]));
  }
  for (const int order : {all_reduce::ring, all_reduce::binary_tree}) {
    CollectiveCase c(order, 13, 5, "fp32");
    const std::vector<double> root = c.terms[0];
    c.schedule.collective = Collective::broadcast;
    SimulatedRanks(13).run(c.schedule, c.reducer, c.terms);
    for (const auto& own : c.terms) EXPECT_TRUE(same_bits(own, root));
  }
}

TEST(SimulatedRanks, TheSameSeedIsTheSameRunAndAnotherOneOnlyAnotherTime) {
  const auto run = [](std::uint64_t seed) {
    CollectiveCase c(all_reduce::double_tree, 13, 40, "fp32");
    SimulatedRanks simulated(13, {.seed = seed, .lost = 0.2});
    simulated.run(c.schedule, c.reducer, c.terms);
    return std::pair(c.terms, simulated.count());
  };
  const auto [bits, first] = run(1);
  const auto [again, second] = run(1);
  const auto [others, third] = run(2);
  EXPECT_EQ(bits, again);
  EXPECT_EQ(first.last_end, second.last_end);
  EXPECT_GT(first.resent, 0);
  EXPECT_EQ(bits, others);  // skew and delays are time, not error
  EXPECT_NE(first.last_end, third.last_end);
}

std::string failure(const SimulationOptions& options, int order = all_reduce::ring) {
  CollectiveCase c(order, 8, 40, "fp32");
  try {
    SimulatedRanks(8, options).run(c.schedule, c.reducer, c.terms);
  } catch (const ProviderFailure& e) {
    return e.what();
  }
  return "";
}

TEST(SimulatedRanks, WhoDiesOrLosesIsNamed) {
  EXPECT_EQ(failure({.dead_rank = 5, .dead_round = 3}),
            "rank 5 died in round 3; 7 other ranks wait");
  EXPECT_EQ(failure({.lost = 0.3}), "");
  const std::string lost = failure({.seed = 2, .lost = 0.02, .resends = false});
  EXPECT_NE(lost.find("whose message was lost"), std::string::npos) << lost;
}

}  // namespace
}  // namespace opbound
