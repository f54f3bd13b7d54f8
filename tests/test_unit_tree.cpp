// Matrix units along a known tree: bounds against kernels that cut off in any way, and how much
// sharper they are than those of any order.
#include "ops/matmul/unit_tree.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/tracked_functions.hpp"
#include "ops/matmul.hpp"
#include "reference/mpfr.hpp"
#include "suites/input.hpp"
#include "suites/reveal.hpp"
#include "tests/attack_kernels.hpp"
#include "tests/attack_perturbed.hpp"

namespace opbound {
namespace {

using attack::chance;
using attack::Random;
using attack::share;
using attack::whole;
using detail::UnitSumAlong;

constexpr int exact_bits = 1200;

/// Steps of up to b products each, with or without a sum, and additions of what is left.
SumTree random_unit_tree(Random& random, const MatrixUnit& u, std::int64_t n) {
  SumTree tree{n, {}};
  std::vector<std::int64_t> leaves(static_cast<std::size_t>(n)), sums;
  std::iota(leaves.begin(), leaves.end(), 0);
  std::shuffle(leaves.begin(), leaves.end(), random);
  const auto put = [&](std::vector<std::int64_t> children) {
    tree.nodes.push_back(std::move(children));
    sums.push_back(n + std::ssize(tree.nodes) - 1);
  };
  const auto some_sum = [&] {
    std::swap(sums[random() % sums.size()], sums.back());
    const std::int64_t sum = sums.back();
    sums.pop_back();
    return sum;
  };
  const bool is_chain = chance(random, 3);
  while (!leaves.empty()) {
    const std::int64_t most = std::min<std::int64_t>(u.block, std::ssize(leaves));
    std::int64_t count = is_chain ? most : whole(random, 1, static_cast<int>(most));
    const bool takes_sum = !sums.empty() && (is_chain || !chance(random, 3));
    if (count == 1 && !takes_sum && sums.empty()) count = 2;  // n is at least 2
    std::vector<std::int64_t> children(leaves.end() - count, leaves.end());
    leaves.resize(leaves.size() - static_cast<std::size_t>(count));
    if (takes_sum || count == 1) children.push_back(some_sum());
    put(children);
    if (sums.size() > 1 && chance(random, 4)) {
      const std::int64_t a = some_sum(), b = some_sum();
      put({a, b});
    }
  }
  while (sums.size() > 1) {
    const std::int64_t a = some_sum(), b = some_sum();
    put({a, b});
  }
  return tree;
}

double some_factor(Random& random, const Format& f, int family) {
  const double sign = chance(random, 2) ? 1 : -1;
  const int least = std::max(f.exponent_min, -40), most = std::min(f.exponent_max - 1, 40);
  switch (family) {
    case 0:
      return round_to(f, sign * (1 + share(random)));
    case 1:
      return round_to(f, sign * std::ldexp(1 + share(random), whole(random, least, most)));
    case 2:
      return sign * f.smallest_subnormal() * whole(random, 0, (1 << (f.digits - 1)) - 1);
    case 3:
      return chance(random, 3) ? 0 : round_to(f, 1 + share(random));
    default:
      return round_to(f, share(random));
  }
}

struct Product {
  std::vector<double> a, b;

  Product(Random& random, const Format& f, int n) {
    const int family = whole(random, 0, 4);
    for (int i = 0; i < n; ++i) {
      a.push_back(some_factor(random, f, family));
      b.push_back(some_factor(random, f, family == 2 ? 1 : whole(random, 0, 4)));
      if (i % 2 == 1 && chance(random, 4)) a.back() = -a[a.size() - 2], b.back() = b[b.size() - 2];
    }
  }

  template <class T>
  T along(const SumTree& tree, const MatrixUnit& u, const Format& f) const {
    return UnitSumAlong<T>::run(
        tree, u, f, f, [&](std::int64_t i) { return from<T>(a[static_cast<std::size_t>(i)]); },
        [&](std::int64_t i) { return from<T>(b[static_cast<std::size_t>(i)]); });
  }

  template <class T>
  T in_any_order(const MatrixUnit& u, const Format& f) const {
    detail::UnitSum<T> sum;
    sum.run(
        u, f, f, std::ssize(a),
        [&](std::int64_t i) { return from<T>(a[static_cast<std::size_t>(i)]); },
        [&](std::int64_t i) { return from<T>(b[static_cast<std::size_t>(i)]); });
    return sum.value;
  }

  double exact() const {
    const PrecisionScope scope(exact_bits);
    Mpfr sum = from<Mpfr>(0.0);
    for (std::size_t i = 0; i < a.size(); ++i) sum = sum + from<Mpfr>(a[i]) * from<Mpfr>(b[i]);
    return to_double(sum);
  }
};

/// x to a multiple of 2^q: down, up, toward zero or to nearest, as it comes.
double cut(Random& random, double x, int q) {
  const double scaled = std::ldexp(x, -q);
  switch (random() % 4) {
    case 0:
      return std::ldexp(std::floor(scaled), q);
    case 1:
      return std::ldexp(std::ceil(scaled), q);
    case 2:
      return std::ldexp(std::trunc(scaled), q);
    default:
      return std::ldexp(std::nearbyint(scaled), q);
  }
}

/// Another kernel of the same tree and unit: each step cuts in ways of its own.
double by_another(Random& random, const SumTree& tree, const Product& p, const MatrixUnit& u,
                  const Format& f) {
  const Format aligned = aligned_format(u, f);
  const auto exponent = [](double v, int least) { return std::max(std::ilogb(v), least); };
  const auto step = [&](const auto& products, const float* sum) {
    const double before = sum == nullptr ? 0 : static_cast<double>(*sum);
    int largest = before != 0 ? exponent(before, -126) : -133;
    for (const std::int64_t i : products) {
      const double a = p.a[static_cast<std::size_t>(i)], b = p.b[static_cast<std::size_t>(i)];
      if (a != 0 && b != 0)
        largest = std::max(largest,
                           exponent(a, aligned.exponent_min) + exponent(b, aligned.exponent_min));
    }
    const PrecisionScope scope(exact_bits);
    Mpfr total = from<Mpfr>(cut(random, before, largest - u.fraction));
    for (const std::int64_t i : products)
      total = total +
              from<Mpfr>(cut(random,
                             p.a[static_cast<std::size_t>(i)] * p.b[static_cast<std::size_t>(i)],
                             largest - u.fraction));
    const double all = to_double(total);
    if (all == 0) return 0.0F;
    return static_cast<float>(cut(random, all, exponent(all, -126) - u.digits + 1));
  };
  return static_cast<double>(detail::along_unit_tree<float>(tree, step));
}

struct Case {
  Generation generation;
  Format format;
};

std::vector<Case> all_units() {
  std::vector<Case> all;
  for (int g = 0; g <= static_cast<int>(Generation::hopper_mma); ++g)
    for (const Format& f : {fp16, bf16, tf32, e4m3, e5m2})
      if (matrix_unit(static_cast<Generation>(g), f).block > 0)
        all.push_back({static_cast<Generation>(g), f});
  return all;
}

/// No kernel exceeds; one takes so much of a bound, less where sums are long.
void attack_trees(int cases, int most, std::uint64_t seed, double reached) {
  Random random(seed);
  const auto units = all_units();
  double use = 0;
  for (int k = 0; k < cases; ++k) {
    const Case& c = attack::pick(random, units);
    const MatrixUnit u = matrix_unit(c.generation, c.format);
    const Product p(random, c.format, whole(random, 2, most));
    const SumTree tree = random_unit_tree(random, u, std::ssize(p.a));
    ASSERT_TRUE(detail::is_tree_of(u, tree));
    const double exact = p.exact(), slack = 0x1p-50 * std::fabs(exact);
    const auto bound = p.along<Tracked<float, Foreign>>(tree, u, c.format);
    const float ours = p.along<float>(tree, u, c.format);
    ASSERT_EQ(bound.value, ours);
    if (!std::isfinite(bound.radius)) continue;
    ASSERT_LE(std::fabs(static_cast<double>(ours) - exact), bound.radius + slack);
    for (int again = 0; again < 4; ++again) {
      const double theirs = by_another(random, tree, p, u, c.format);
      ASSERT_LE(std::fabs(theirs - exact), bound.radius + slack) << name_of(c.format) << " " << k;
      ASSERT_LE(std::fabs(theirs - static_cast<double>(ours)), bound.spread) << k;
      if (bound.radius > 0) use = std::max(use, std::fabs(theirs - exact) / bound.radius);
    }
  }
  EXPECT_GT(use, reached);
}

TEST(UnitTree, NoKernelOfATreeExceedsItsBound) { attack_trees(20000, 60, 1, 0.5); }
TEST(FullUnitTree, NoKernelOfATreeExceedsItsBound) {
  attack_trees(300000, 60, 2, 0.5);
  attack_trees(3000, 2000, 3, 0.25);
}

/// A chain of steps of normal numbers: sums grow as sqrt(k), the magnitudes of any order as k.
TEST(UnitTree, AKnownTreeIsSharper) {
  Random random(4);
  const MatrixUnit u = matrix_unit(Generation::hopper, bf16);
  Product p(random, bf16, 0);
  SumTree chain{1024, {}};
  for (int i = 0; i < 1024; ++i) {
    p.a.push_back(round_to(bf16, 2 * share(random) - 1));
    p.b.push_back(round_to(bf16, 2 * share(random) - 1));
    if (i % 16 == 0) chain.nodes.emplace_back();
    if (i % 16 == 0 && i > 0) chain.nodes.back().push_back(1024 + std::ssize(chain.nodes) - 2);
    chain.nodes.back().push_back(i);
  }
  const auto known = p.along<Tracked<float, Foreign>>(chain, u, bf16);
  const auto any = p.in_any_order<Tracked<float, Foreign>>(u, bf16);
  EXPECT_EQ(known.value, any.value);
  EXPECT_LT(known.radius, any.radius / 10);
}

/// 1, and products just below what the unit keeps beside it: all are lost, step by step.
TEST(UnitTree, TheWorstCaseIsReached) {
  Random random(5);
  const MatrixUnit u = matrix_unit(Generation::hopper, bf16);
  Product p(random, bf16, 0);
  SumTree chain{1024, {}};
  for (int i = 0; i < 1024; ++i) {
    p.a.push_back(i == 0 ? 1 : std::ldexp(1 - 0x1p-8, -13));
    p.b.push_back(i == 0 ? 1 : std::ldexp(1 - 0x1p-8, -12));
    if (i % 16 == 0) chain.nodes.emplace_back();
    if (i % 16 == 0 && i > 0) chain.nodes.back().push_back(1024 + std::ssize(chain.nodes) - 2);
    chain.nodes.back().push_back(i);
  }
  const auto known = p.along<Tracked<float, Foreign>>(chain, u, bf16);
  EXPECT_EQ(to_double(known), 1);
  EXPECT_GT((p.exact() - 1) / known.radius, 0.5);
}

CaseSpec case_of(std::string_view precision, int variant, std::int64_t k) {
  CaseSpec spec = attack::case_for("matmul", Direction::forward, precision, {3, 2, k});
  spec.variant = variant;
  spec.declared = {variant};
  return spec;
}

/// A node of more products than a step takes, or of products and two sums, is no unit's.
TEST(UnitTree, OtherTreesAreNotUsed) {
  const CaseSpec spec = case_of("fp16:fp32:fp32", matmul::volta, 6);
  Prepared p = prepare(spec);
  const SumTree steps{6, {{0, 1, 2, 3}, {4, 5, 6}}}, large{6, {{0, 1, 2, 3, 4}, {5, 6}}};
  const SumTree mixed{6, {{0, 1}, {2, 3}, {4, 5, 6, 7}}};
  EXPECT_TRUE(spec.op->run_along(p.call, steps, Products::rounded));
  EXPECT_FALSE(spec.op->run_along(p.call, large, Products::rounded));
  EXPECT_FALSE(spec.op->run_along(p.call, mixed, Products::rounded));
  const auto radius = [&](Contract::Order order, const SumTree& tree) {
    const Contract c{{matmul::volta}, order, cuda_function_errors, tree};
    return spec.op->bound(p.call, c, matmul::volta)[matmul::forward::d].radius;
  };
  const auto any = radius(Contract::Order::any, {});
  EXPECT_EQ(radius(Contract::Order::tree, large), any);
  EXPECT_EQ(radius(Contract::Order::tree, mixed), any);
  EXPECT_LT(radius(Contract::Order::tree, steps).front(), any.front());
}

/// Our own kernels of units are found, replayed and have their sharper bound.
TEST(UnitTree, UnitsAreRevealedAndReplayed) {
  const auto own = own_host_provider();
  for (const auto& [precision, variant, block] :
       {std::tuple{"bf16:fp32:fp32", int{matmul::hopper}, 16},
        {"fp16:fp32:fp32", int{matmul::volta}, 4},
        {"tf32:fp32:fp32", int{matmul::ampere}, 4},
        {"e4m3:fp32:fp32", int{matmul::hopper}, 32},
        {"e5m2:fp32:fp32", int{matmul::ada}, 16},
        {"e4m3:fp32:fp32", int{matmul::hopper_mma}, 16}}) {
    CaseSpec spec = case_of(precision, variant, 70);
    // so far apart that 25 bits do not hold them all
    spec.inputs = {{"a", parse_input("log_spaced(low=-9, high=8)")},
                   {"b", parse_input("log_spaced(low=-9, high=8)")}};
    const SumOfPass sum = sums_of(*spec.op, spec.direction).front();
    const RevealedSum r = reveal_case(spec, sum, *own, 100000);
    EXPECT_EQ(r.found.refusal, "") << precision;
    EXPECT_TRUE(r.is_replayed) << precision << " " << variant << ": " << r.note;
    EXPECT_EQ(r.variant, variant);
    EXPECT_EQ(r.found.tree.nodes.front().size(), block) << to_string(r.found.tree);
  }
}

/// A unit's tree is none of an ordinary sum, and another unit's bits are other ones.
TEST(UnitTree, AnotherAlgorithmDoesNotReplay) {
  const auto own = own_host_provider();
  for (const int declared : {int{matmul::sequential}, int{matmul::ampere}}) {
    CaseSpec spec = case_of("bf16:fp32:fp32", matmul::hopper, 64);
    spec.declared = {declared};
    const SumOfPass sum = sums_of(*spec.op, spec.direction).front();
    const RevealedSum r = reveal_case(spec, sum, *own, 100000);
    EXPECT_EQ(r.found.refusal, "");
    EXPECT_FALSE(r.is_replayed) << declared;
  }
}

}  // namespace
}  // namespace opbound
