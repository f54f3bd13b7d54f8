// Schedules of all-reduce: the orders that they are said to be, and what ranks do to a sum.
#include "ops/all_reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "suites/input.hpp"
#include "suites/reveal.hpp"
#include "suites/run.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

CaseSpec reduce(int variant, std::int64_t ranks, std::int64_t n,
                std::string_view precision = "fp32") {
  CaseSpec spec = attack::case_for("all_reduce", Direction::forward, precision, {ranks, n});
  spec.variant = variant;
  spec.declared = {variant, all_reduce::any_order};
  return spec;
}

/// The order of the message's first element, as somebody who only sees results finds it.
SumTree revealed(int variant, std::int64_t ranks) {
  const CaseSpec spec = reduce(variant, ranks, ranks);
  const auto own = own_host_provider();
  const RevealedSum r = reveal_case(spec, sums_of(*spec.op, spec.direction).front(), *own, 1000000);
  EXPECT_EQ(r.found.refusal, "");
  return r.found.tree;
}

int ceil_log2(std::int64_t n) { return static_cast<int>(std::ceil(std::log2(n))); }

/// bounds/README.md 5: the additions on the longest path.
TEST(AllReduce, SchedulesHaveTheHeightsThatAreSaid) {
  for (const std::int64_t ranks : {2, 3, 5, 8, 13, 16, 31, 64, 100}) {
    EXPECT_EQ(height(revealed(all_reduce::ring, ranks)), ranks - 1);
    EXPECT_EQ(height(revealed(all_reduce::direct, ranks)), ranks - 1);
    EXPECT_EQ(height(revealed(all_reduce::halving_doubling, ranks)), ceil_log2(ranks)) << ranks;
    EXPECT_EQ(height(revealed(all_reduce::balanced_tree, ranks)), ceil_log2(ranks)) << ranks;
    EXPECT_LE(height(revealed(all_reduce::binary_tree, ranks)), 2 * ceil_log2(ranks)) << ranks;
    EXPECT_LE(height(revealed(all_reduce::hierarchical, ranks)), 7 + 2 * ceil_log2((ranks + 7) / 8))
        << ranks;
  }
}

TEST(AllReduce, OrdersAreTheSchedules) {
  EXPECT_EQ(to_string(revealed(all_reduce::direct, 5)), "(0..4)");
  EXPECT_EQ(to_string(revealed(all_reduce::ring, 4)), "(0+(1..3))");
  EXPECT_EQ(to_string(revealed(all_reduce::halving_doubling, 4)), "((0+2)+(1+3))");
  EXPECT_EQ(to_string(revealed(all_reduce::halving_doubling, 6)), "(((0+4)+2)+((1+5)+3))");
  EXPECT_EQ(to_string(revealed(all_reduce::binary_tree, 7)), "((0+((1+3)+4))+((2+5)+6))");
  EXPECT_EQ(to_string(revealed(all_reduce::balanced_tree, 4)), "((0+1)+(2+3))");
  EXPECT_EQ(to_string(revealed(all_reduce::balanced_tree, 7)), "(((0+1)+(2+3))+(4..6))");
}

std::vector<double> reduced(const CaseSpec& spec) {
  Prepared p = prepare(spec);
  spec.op->run(p.call);
  return p.tensors.find("y")->second.values();
}

/// Each chunk of a ring starts at another rank: with values that only one order keeps, it shows.
TEST(AllReduce, ARingStartsEachChunkAtAnotherRank) {
  CaseSpec spec = reduce(all_reduce::ring, 4, 8);
  Tensor x(fp32, {4, 8});
  for (std::int64_t i = 0; i < 8; ++i) {  // 2^30, -2^30, 1, 0: the 1 is lost where it comes between
    x.set(0 * 8 + i, 0x1p30);
    x.set(1 * 8 + i, 1);
    x.set(2 * 8 + i, -0x1p30);
    x.set(3 * 8 + i, 0);
  }
  Tensors given;
  given.emplace("x", x);
  Prepared p = prepare(spec, given);
  spec.op->run(p.call);
  // chunks of two: from rank 1 (1 - 2^30 + 0 + 2^30), 2 (-2^30 + 0 + 2^30 + 1), 3, 0
  EXPECT_EQ(p.tensors.find("y")->second.values(), (std::vector<double>{0, 0, 1, 1, 0, 0, 0, 0}));
}

/// Ones in bf16 stop counting at 256 in a ring, not along a tree.
TEST(AllReduce, EqualGradientsStagnateInARing) {
  CaseSpec spec = reduce(all_reduce::ring, 1024, 4, "bf16");
  spec.inputs = {{"x", parse_input("constant(value=1)")}};
  EXPECT_EQ(reduced(spec).front(), 256);
  spec.variant = all_reduce::halving_doubling;
  EXPECT_EQ(reduced(spec).front(), 1024);
}

/// The first number of ranks at which equal gradients of 1000 overflow fp16, and their mean where
/// it is divided before.
TEST(AllReduce, AnFp16SumOverflowsAndAMeanThatDividesFirstDoesNot) {
  CaseSpec spec = reduce(all_reduce::binary_tree, 65, 2, "fp16");
  spec.inputs = {{"x", parse_input("constant(value=1000)")}};
  EXPECT_TRUE(std::isfinite(reduced(spec).front()));
  spec.sizes[0] = 66;
  EXPECT_TRUE(std::isinf(reduced(spec).front()));
  all_reduce::Attributes a;
  a.reduction = all_reduce::Reduction::mean;
  spec.attributes = to_bytes(a);
  EXPECT_TRUE(std::isinf(reduced(spec).front()));
  a.divides = all_reduce::Divides::before;
  spec.attributes = to_bytes(a);
  EXPECT_TRUE(std::isfinite(reduced(spec).front()));
}

}  // namespace
}  // namespace opbound
