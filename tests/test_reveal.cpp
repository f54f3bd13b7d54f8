// Orders of summation found by probing: every tree, in every format, and what has none.
#include "bounds/reveal.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/matmul.hpp"
#include "ops/precision.hpp"
#include "reports/error.hpp"
#include "suites/reveal_file.hpp"
#include "tests/attack_kernels.hpp"
#include "tests/attack_perturbed.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

using attack::Random;

/// Adds terms along a tree in T: M and a unit that M swallows.
template <class T>
SumProbe along(const SumTree& tree, double large, double unit) {
  return [&tree, large, unit](std::span<const ProbeTerm> terms) {
    const auto term = [&](std::int64_t i) {
      switch (terms[static_cast<std::size_t>(i)]) {
        case ProbeTerm::plus:
          return from<T>(large);
        case ProbeTerm::minus:
          return from<T>(-large);
        case ProbeTerm::unit:
          return from<T>(unit);
        default:
          return from<T>(0.0);
      }
    };
    return to_double(AlongTree{{}, &tree, Products::rounded, nullptr}.sum(tree.leaves, term)) /
           unit;
  };
}

/// The same sums, whatever the order of nodes and of the children of a node is.
std::vector<std::vector<std::int64_t>> leaf_sets(const SumTree& tree) {
  std::vector<std::vector<std::int64_t>> sets;
  for (const auto& children : tree.nodes) {
    std::vector<std::int64_t> leaves;
    for (const std::int64_t c : children) {
      if (c < tree.leaves) {
        leaves.push_back(c);
      } else {
        const auto& below = sets[static_cast<std::size_t>(c - tree.leaves)];
        leaves.insert(leaves.end(), below.begin(), below.end());
      }
    }
    std::sort(leaves.begin(), leaves.end());
    sets.push_back(leaves);
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

template <class T>
void expect_random_trees_are_found(double large, double unit, std::int64_t counts, int most) {
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 60);
    const SumTree tree = attack::random_tree(random, n, most);
    const Revealed found = reveal_sum(n, counts, 1 << 30, along<T>(tree, large, unit));
    ASSERT_EQ(found.refusal, "") << n;
    ASSERT_EQ(leaf_sets(found.tree), leaf_sets(tree)) << to_string(tree);
    ASSERT_EQ(height(found.tree), height(tree));
    EXPECT_LE(found.calls, n * (n - 1) / 2 * ((n - 1) / counts + 1));
  }
}

TEST(Reveal, RandomTreesAreFound) {
  expect_random_trees_are_found<float>(0x1p126, 1, 1 << 24, 2);
  expect_random_trees_are_found<Rounded<bf16>>(0x1p120, 1, 256, 2);
  expect_random_trees_are_found<Rounded<fp16>>(0x1p14, 0x1p-14, 2048, 2);
  expect_random_trees_are_found<float>(0x1p126, 1, 1, 2);           // one unit at a time
  expect_random_trees_are_found<Rounded<e5m2>>(0x1p14, 1, 4, 2);    // four
  expect_random_trees_are_found<Rounded<bf16>>(0x1p120, 1, 17, 2);  // an odd number
}

/// A unit of k terms that drops what its largest one absorbs, as matrix units do.
TEST(Reveal, NodesOfManyTermsAreFound) {
  Random random(11);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t n = 2 + static_cast<std::int64_t>(random() % 50);
    const SumTree tree = attack::random_tree(random, n, 9);
    const auto probe = [&](std::span<const ProbeTerm> terms) {
      std::vector<std::pair<int, double>> sums;  // how many Ms, and units
      for (const auto& children : tree.nodes) {
        int large = 0, seen = 0;
        double units = 0;
        for (const std::int64_t c : children) {
          const bool is_leaf = c < n;
          const ProbeTerm t = is_leaf ? terms[static_cast<std::size_t>(c)] : ProbeTerm::zero;
          const auto below = is_leaf ? std::pair{t == ProbeTerm::plus    ? 1
                                                 : t == ProbeTerm::minus ? -1
                                                                         : 0,
                                                 t == ProbeTerm::unit ? 1.0 : 0.0}
                                     : sums[static_cast<std::size_t>(c - n)];
          large += below.first;
          seen += below.first != 0 ? 1 : 0;
          units += below.second;
        }
        sums.emplace_back(large, seen > 0 ? 0 : units);
      }
      return sums.back().second;
    };
    const Revealed found = reveal_sum(n, n, 1 << 30, probe);
    ASSERT_EQ(found.refusal, "");
    ASSERT_EQ(leaf_sets(found.tree), leaf_sets(tree)) << to_string(tree);
  }
}

TEST(Reveal, ChainsTakeFewProbes) {
  for (const bool from_the_end : {false, true}) {
    const std::int64_t n = 1000;
    SumTree chain{n, {}};
    const auto term = [&](std::int64_t k) { return from_the_end ? n - 1 - k : k; };
    for (std::int64_t k = 1; k < n; ++k)
      chain.nodes.push_back({k == 1 ? term(0) : n + k - 2, term(k)});
    const Revealed found = reveal_sum(n, 1 << 24, 1 << 30, along<float>(chain, 0x1p126, 1));
    EXPECT_EQ(leaf_sets(found.tree), leaf_sets(chain));
    EXPECT_LE(found.calls, 2 * n);
    EXPECT_EQ(height(found.tree), n - 1);
  }
}

TEST(Reveal, WhatIsNoTreeIsRefused) {
  const auto exact = [](std::span<const ProbeTerm> terms) {
    return static_cast<double>(std::count(terms.begin(), terms.end(), ProbeTerm::unit));
  };
  EXPECT_NE(reveal_sum(9, 100, 1000, exact).refusal.find("compensated"), std::string::npos);
  const auto fraction = [](std::span<const ProbeTerm>) { return 0.5; };
  EXPECT_NE(reveal_sum(9, 100, 1000, fraction).refusal.find("0.5"), std::string::npos);
  const auto nan = [](std::span<const ProbeTerm>) { return std::nan(""); };
  EXPECT_NE(reveal_sum(9, 100, 1000, nan).refusal, "");
  Random random(3);
  const auto at_random = [&](std::span<const ProbeTerm> terms) {
    const SumTree tree = attack::random_tree(random, 30, 2);
    return along<float>(tree, 0x1p126, 1)(terms);
  };
  EXPECT_NE(reveal_sum(30, 100, 10000, at_random).refusal, "");
  EXPECT_NE(reveal_sum(30, 1, 5, exact).refusal.find("more probes"), std::string::npos);
}

TEST(Reveal, TreesAreWrittenShort) {
  EXPECT_EQ(to_string(SumTree{4, {{0, 1}, {2, 4}, {3, 5}}}), "(0..3)");
  EXPECT_EQ(to_string(SumTree{4, {{2, 3}, {0, 1}, {4, 5}}}), "((0+1)+(2+3))");
  EXPECT_EQ(to_string(SumTree{4, {{0, 1, 3}, {2, 4}}}), "(sum(0,1,3)+2)");
  EXPECT_EQ(to_string(SumTree{1, {}}), "0");
}

CaseSpec product(std::string_view precision, std::int64_t k) {
  CaseSpec spec = attack::case_for("matmul", Direction::forward, precision, {3, 2, k});
  spec.variant = matmul::split_k;
  spec.declared = {matmul::split_k, matmul::sequential};  // only this is one sum
  return spec;
}

TEST(Reveal, OrdersAreTheSameWhicheverOperandStandsFirst) {
  const SumTree chain{3, {{0, 1}, {3, 2}}};
  EXPECT_TRUE(is_same_order(chain, {3, {{1, 0}, {2, 3}}}));
  EXPECT_FALSE(is_same_order(chain, {3, {{0, 2}, {3, 1}}}));
  EXPECT_TRUE(is_same_order({4, {{2, 3}, {0, 1}, {4, 5}}}, {4, {{0, 1}, {3, 2}, {4, 5}}}));
  EXPECT_FALSE(is_same_order({4, {{0, 1}, {2, 3}, {4, 5}}}, {4, {{0, 1}, {4, 2}, {5, 3}}}));
  EXPECT_FALSE(is_same_order(chain, {4, {{0, 1}, {4, 2}, {5, 3}}}));
}

class RevealFile : public TemporaryFolder {};

/// The own kernel's order is known: chains of slices, their sums in turn.
TEST_F(RevealFile, OwnProductIsFoundReplayedAndReadAgain) {
  const auto own = own_host_provider();
  CaseSpec spec = product("fp32", 40);
  const auto sums = sums_of(*spec.op, spec.direction);
  ASSERT_EQ(sums.size(), 1U);
  const RevealedSum found = reveal_case(spec, sums.front(), *own, 100000);
  EXPECT_EQ(found.found.refusal, "");
  EXPECT_TRUE(found.is_replayed) << found.note;
  EXPECT_NE(found.products, Products::rounded);
  EXPECT_EQ(found.variant, matmul::sequential);
  EXPECT_EQ(found.same_bits.again, Answer::yes);
  EXPECT_EQ(found.same_bits.alone, Answer::yes);
  put("order.json", reveal_text(spec, sums.front(), *own, found));
  const SumTree tree = read_order_file(path("order.json")).tree;
  EXPECT_EQ(tree.leaves, 40);
  EXPECT_EQ(leaf_sets(tree), leaf_sets(found.found.tree));
}

RevealedSum revealed(const CaseSpec& spec) {
  const auto own = own_host_provider();
  return reveal_case(spec, sums_of(*spec.op, spec.direction).front(), *own, 100000);
}

/// Units that are added before they meet M are lost in -M as well, whose spacing is half of M's.
TEST(RevealCase, NarrowFormatsAreProbedWithFewerUnits) {
  const RevealedSum rows =
      revealed(attack::case_for("bias", Direction::backward_local, "fp16:fp32:fp16", {128, 4}));
  EXPECT_EQ(rows.found.refusal, "");
  EXPECT_EQ(height(rows.found.tree), 7);
  const RevealedSum products =
      revealed(attack::case_for("matmul", Direction::forward, "e4m3:fp32:fp16", {1, 1, 100}));
  EXPECT_EQ(products.found.refusal, "");
  EXPECT_EQ(to_string(products.found.tree), "(0..99)");
}

/// A chain is one of the orders that it is told apart from.
TEST(RevealCase, AChainOfAdditionsIsReplayed) {
  const RevealedSum r =
      revealed(attack::case_for("all_reduce", Direction::forward, "fp32", {8, 61}));
  EXPECT_EQ(to_string(r.found.tree), "(0..7)");
  EXPECT_TRUE(r.is_replayed) << r.note;
}

/// Indices that say which sum a term belongs to say the first. Our kernels take such terms as they
/// come, whatever the tree: no evidence.
TEST(RevealCase, TermsOfIndexedSumsAreInOne) {
  for (const char* op : {"segmented_sum", "embedding"}) {
    const bool is_embedding = std::string(op) == "embedding";
    const Direction direction = is_embedding ? Direction::backward_local : Direction::forward;
    const Sizes sizes{12, is_embedding ? 3 : 2, 2, 1};
    const RevealedSum r = revealed(attack::case_for(op, direction, "fp32", sizes));
    EXPECT_EQ(to_string(r.found.tree), "(0..11)") << op << r.found.refusal;
    EXPECT_FALSE(r.is_replayed) << op;
  }
}

/// Three terms in bf16 have the same sum in any order: no evidence.
TEST(RevealCase, AnOutputThatTellsNoOrdersApartIsNoEvidence) {
  const RevealedSum r =
      revealed(attack::case_for("matmul", Direction::forward, "bf16:fp32:bf16", {1, 1, 3}));
  EXPECT_EQ(r.found.refusal, "");
  EXPECT_FALSE(r.is_replayed);
  EXPECT_NE(r.note.find("too narrow"), std::string::npos) << r.note;
}

TEST_F(RevealFile, WhatIsNoOrderIsRefused) {
  const auto refusal = [&](const std::string& text) -> std::string {
    put("order.json", text);
    try {
      read_order_file(path("order.json"));
    } catch (const InputError& e) {
      return e.what();
    }
    return {};
  };
  const auto order = [](const std::string& nodes, const char* same = "true") {
    return R"({"kind": "order", "op": "bias", "direction": "backward_local", "part": "db",)"
           R"( "summed": "rows", "precision": "fp32", "replayed": {"same_bits": )" +
           std::string(same) + R"(}, "tree": {"leaves": 3, "nodes": )" + nodes + "}}";
  };
  EXPECT_EQ(refusal(order("[[0, 1], [2, 3]]")), "");
  for (const char* nodes :
       {"[]", "[[0, 1]]", "[[0, 1], [2, 2]]", "[[0, 4], [1, 2]]", "[[0], [1, 3]]",
        "[[0, 1], [2, -1]]", "[[0, 1, 2], [3, 3]]", "[\"x\"]", "7"})
    EXPECT_NE(refusal(order(nodes)), "") << nodes;
  EXPECT_NE(refusal(order("[[0, 1], [2, 3]]", "false")), "");
  std::string large = order("[[0, 1], [2, 3]]");
  large.replace(large.find("\"leaves\": 3"), 11, "\"leaves\": 9e18");
  EXPECT_NE(refusal(large), "");
  for (const char* text :
       {"", "{", "[]", "{\"kind\": \"run\"}", "{\"kind\": \"order\"}", "{\"kind\": 5}"})
    EXPECT_NE(refusal(text), "") << text;
  EXPECT_THROW(read_order_file(path("missing.json")), InputError);
}

}  // namespace
}  // namespace opbound
