// Bounds of sums in every order, and along one tree, against many executions.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "bounds/any_order.hpp"
#include "tests/attack_expression.hpp"

namespace opbound {
namespace {

using attack::Random;
using attack::whole;
using Row = std::vector<double>;

template <class N>
auto terms_of(const Row& x) {
  return [&x](std::int64_t i) { return from<N>(x[static_cast<std::size_t>(i)]); };
}
std::int64_t length(const Row& x) { return static_cast<std::int64_t>(x.size()); }

template <class N, class Team>
N sum_by(const Team& team, const Row& x) {
  return team.sum(length(x), terms_of<N>(x));
}

template <class T>
using Foreigner = Tracked<T, Foreign>;

enum class Family { positive, mixed, cancelling, constant, ties, wide, whole_numbers, count };

/// A row of a format's values; magnitudes leave room for sums of 4096.
Row make_row(Random& random, Family family, std::size_t n, const Format& f) {
  Row x(n);
  const double u = f.unit_roundoff();
  const double constant = 1 + attack::share(random);
  for (std::size_t i = 0; i < n; ++i) {
    const double uniform = attack::share(random);
    switch (family) {
      case Family::positive:
        x[i] = uniform;
        break;
      case Family::mixed:
        x[i] = 2 * uniform - 1;
        break;
      case Family::cancelling:
        x[i] = i % 2 == 0 ? 1 + uniform : -x[i - 1];
        break;
      case Family::constant:
        x[i] = constant;
        break;
      case Family::ties:  // added to 1 one by one, each is lost
        x[i] = i == 0 ? 1 : u * (attack::chance(random, 8) ? 3 : 1);
        break;
      case Family::wide:
        x[i] = (uniform - 0.5) * std::ldexp(1.0, whole(random, f.exponent_min / 2, 0));
        break;
      default:
        x[i] = whole(random, -3, 3);
    }
    x[i] = round_to(f, x[i]);
  }
  if (family == Family::cancelling && n > 2) x[n / 2] = round_to(f, 3 * u);
  return x;
}

/// Sums of a row in many orders.
template <class T>
std::vector<T> executions(Random& random, Row x) {
  std::vector<T> sums{sum_by<T>(HostTeam<1>{}, x), sum_by<T>(HostTeam<128>{}, x),
                      sum_by<T>(HostTeam<8>{}, x)};
  for (int i = 0; i < 6; ++i) sums.push_back(sum_by<T>(attack::RandomTreeTeam{&random}, x));
  std::sort(x.begin(), x.end());
  sums.push_back(sum_by<T>(HostTeam<1>{}, x));
  std::reverse(x.begin(), x.end());
  sums.push_back(sum_by<T>(HostTeam<1>{}, x));
  std::sort(x.begin(), x.end(), [](double a, double b) { return std::fabs(a) > std::fabs(b); });
  sums.push_back(sum_by<T>(HostTeam<1>{}, x));
  return sums;
}

struct Uses {
  double largest = 0;
  long exact_rows = 0, rows = 0;
};

template <class T>
void attack_row(Random& random, const Row& x, Uses& uses) {
  const PrecisionScope scope(600);
  const auto bound = sum_by<Foreigner<T>>(AnyOrderTeam{}, x);
  const Mpfr exact = sum_by<Mpfr>(HostTeam<1>{}, x);
  ++uses.rows;
  uses.exact_rows += bound.radius == 0 ? 1 : 0;
  for (const T got : executions<T>(random, x)) {
    const double use = attack::use_of(attack::exact_value(got), exact, bound.radius);
    ASSERT_GE(use, 0) << "n " << x.size();
    ASSERT_GE(
        attack::use_of(attack::exact_value(got), attack::exact_value(bound.value), bound.spread), 0)
        << "n " << x.size();
    uses.largest = std::max(uses.largest, use);
  }
}

template <class T>
void attack_sums(int rows, std::uint64_t seed) {
  Random random(seed);
  Uses uses;
  for (int i = 0; i < rows; ++i) {
    const auto family = static_cast<Family>(i % static_cast<int>(Family::count));
    const int n = attack::chance(random, 8) ? whole(random, 1, 4096) : whole(random, 1, 70);
    attack_row<T>(random, make_row(random, family, static_cast<std::size_t>(n), Facts<T>::format),
                  uses);
    if (testing::Test::HasFatalFailure()) return;
  }
  testing::Test::RecordProperty("largest_ratio", std::to_string(uses.largest));
  testing::Test::RecordProperty("exact_rows", std::to_string(uses.exact_rows));
  EXPECT_GT(uses.largest, 0.9);  // ties added to 1 in turn lose all that the theorem allows
  EXPECT_GT(uses.exact_rows, uses.rows / 10);
  EXPECT_LT(uses.exact_rows, uses.rows / 2);
}

TEST(AnyOrder, HoldsForFloat) { attack_sums<float>(300, 1); }
TEST(AnyOrder, HoldsForBf16) { attack_sums<Rounded<bf16>>(300, 2); }
TEST(AnyOrder, HoldsForFp16) { attack_sums<Rounded<fp16>>(300, 3); }
TEST(AnyOrder, HoldsForDouble) { attack_sums<double>(100, 4); }
TEST(FullAnyOrder, Holds) {
  attack_sums<float>(30000, 5);
  attack_sums<Rounded<bf16>>(30000, 6);
  attack_sums<Rounded<fp16>>(30000, 7);
  attack_sums<double>(30000, 8);
}

/// A dot product with fused multiply-adds is another execution of a sum of products.
template <class T>
void attack_fused_products(int rows, std::uint64_t seed) {
  Random random(seed);
  const Format& f = Facts<T>::format;
  for (int row = 0; row < rows; ++row) {
    const auto n = static_cast<std::size_t>(whole(random, 1, 200));
    const auto family = static_cast<Family>(row % static_cast<int>(Family::count));
    const Row x = make_row(random, family, n, f), y = make_row(random, Family::mixed, n, f);
    const auto product = [&]<class N>(N) {
      return [&](std::int64_t i) { return terms_of<N>(x)(i) * terms_of<N>(y)(i); };
    };
    const PrecisionScope scope(600);
    const auto bound = AnyOrderTeam{}.sum(length(x), product(Foreigner<T>{}));
    const Mpfr exact = HostTeam<1>{}.sum(length(x), product(Mpfr{}));
    T fused = from<T>(0.0);
    for (std::size_t i = 0; i < n; ++i) fused = fma(from<T>(x[i]), from<T>(y[i]), fused);
    EXPECT_GE(attack::use_of(attack::exact_value(fused), exact, bound.radius), 0);
    const T tree = attack::RandomTreeTeam{&random}.sum(length(x), product(T{}));
    EXPECT_GE(attack::use_of(attack::exact_value(tree), exact, bound.radius), 0);
  }
}
TEST(AnyOrder, CoversFusedProducts) {
  attack_fused_products<float>(300, 11);
  attack_fused_products<Rounded<bf16>>(300, 12);
  attack_fused_products<Rounded<fp16>>(300, 13);
}

// ---- exact in any order

template <class T>
double radius_of(const Row& x) {
  return sum_by<Foreigner<T>>(AnyOrderTeam{}, x).radius;
}

TEST(ExactInAnyOrder, IsSeenOnConstantRows) {
  EXPECT_EQ(radius_of<float>(Row(4096, 60000)), 0);       // fp16 values: up to 2^13
  EXPECT_EQ(radius_of<float>(Row(65793, 1.9921875)), 0);  // bf16 values: up to 2^16
  EXPECT_GT(radius_of<float>(Row(65794, 1.9921875)), 0);
  EXPECT_EQ(radius_of<Rounded<bf16>>(Row(256, 1)), 0);
  EXPECT_GT(radius_of<Rounded<bf16>>(Row(257, 1)), 0);  // stays at 256
  EXPECT_EQ(radius_of<Rounded<fp16>>(Row(2048, 0x1p-24)), 0);
}

/// Whole numbers whose magnitudes add up to just below, at and above 2^digits.
TEST(ExactInAnyOrder, HasASharpEdge) {
  using T = Rounded<bf16>;
  Random random(21);
  const PrecisionScope scope(200);
  int exact_rows = 0;
  for (int row = 0; row < 4000; ++row) {
    Row x(static_cast<std::size_t>(whole(random, 2, 9)));
    for (double& v : x) v = whole(random, -64, 64) * 0x1p-20;
    const auto bound = sum_by<Foreigner<T>>(AnyOrderTeam{}, x);
    if (bound.radius != 0) continue;
    ++exact_rows;
    for (const T got : executions<T>(random, x))
      ASSERT_EQ(to_double(got), std::accumulate(x.begin(), x.end(), 0.0));
  }
  EXPECT_GT(exact_rows, 400);
  EXPECT_EQ(radius_of<T>({100, 100, 56}), 0);
  EXPECT_GT(radius_of<T>({100, 100, 57}), 0);
  EXPECT_GT(radius_of<T>({100, 100, -57}), 0);  // 100 + 100 + 57 is not asked for, but could be
  EXPECT_EQ(radius_of<double>({0x1p53 - 2, 1}), 0);
  EXPECT_GT(radius_of<double>({0x1p53, 1}), 0);
}

// ---- infinities and overflow

TEST(AnyOrder, ClaimsNoInfinityThatAnOrderMakes) {
  const auto sum = [](const Row& x) { return sum_by<Foreigner<Rounded<fp16>>>(AnyOrderTeam{}, x); };
  constexpr double infinite = detail::infinite;
  EXPECT_EQ(sum({-32768, -32768}).radius, infinite);  // overflows, but the exact sum is a number
  EXPECT_EQ(sum({60000, -60000, 60000, -60000}).radius, infinite);  // overflows in another order
  EXPECT_EQ(sum({infinite, 1, 2}).radius, 0);
  EXPECT_EQ(sum({infinite, -60000, -60000}).radius, infinite);  // -infinity + infinity elsewhere
  EXPECT_EQ(sum({infinite, 1, -infinite}).radius, 0);           // NaN in every order
  EXPECT_EQ(sum({infinite, 60000, 60000, -infinite}).radius, infinite);
  EXPECT_EQ(sum({1e30, 1}).radius, infinite);
}

// ---- why one order's bound will not do

TEST(OneOrder, IsExceededByOthers) {
  Random random(31);
  const PrecisionScope scope(600);
  long exceeded = 0;
  double largest = 0;
  for (int row = 0; row < 300; ++row) {
    const auto family = static_cast<Family>(row % static_cast<int>(Family::count));
    const Row x = make_row(random, family, static_cast<std::size_t>(whole(random, 2, 600)), fp32);
    const auto bound = sum_by<Tracked<float>>(HostTeam<128>{}, x);
    const Mpfr exact = sum_by<Mpfr>(HostTeam<1>{}, x);
    for (const float got : executions<float>(random, x)) {
      const double error = to_double(abs(from<Mpfr>(got) - exact));
      exceeded += error > bound.radius ? 1 : 0;
      if (bound.radius > 0) largest = std::max(largest, error / bound.radius);
    }
  }
  RecordProperty("largest_ratio", std::to_string(largest));
  EXPECT_GT(exceeded, 10);
  EXPECT_GT(largest, 2);
}

// ---- one tree

template <class T>
void attack_trees(int rows, std::uint64_t seed) {
  Random random(seed);
  const PrecisionScope scope(600);
  double largest = 0;
  for (int row = 0; row < rows; ++row) {
    const auto family = static_cast<Family>(row % static_cast<int>(Family::count));
    const Row x =
        make_row(random, family, static_cast<std::size_t>(whole(random, 2, 300)), Facts<T>::format);
    const SumTree tree = attack::random_tree(random, length(x), attack::chance(random, 2) ? 2 : 9);
    const auto bound = sum_by<Foreigner<T>>(TreeTeam{&tree}, x);
    const Mpfr exact = sum_by<Mpfr>(HostTeam<1>{}, x);
    for (int execution = 0; execution < 4; ++execution) {
      const T got = sum_by<T>(attack::AlongTree{&tree, &random}, x);
      const double use = attack::use_of(attack::exact_value(got), exact, bound.radius);
      ASSERT_GE(use, 0);
      ASSERT_GE(
          attack::use_of(attack::exact_value(got), attack::exact_value(bound.value), bound.spread),
          0);
      largest = std::max(largest, use);
    }
  }
  testing::Test::RecordProperty("largest_ratio", std::to_string(largest));
}
TEST(Tree, HoldsForFloat) { attack_trees<float>(300, 41); }
TEST(Tree, HoldsForBf16) { attack_trees<Rounded<bf16>>(300, 42); }
TEST(Tree, HoldsForFp16) { attack_trees<Rounded<fp16>>(300, 43); }

TEST(Tree, IsSharperThanAnyOrderAndFallsBackToIt) {
  Random random(44);
  const Row x = make_row(random, Family::positive, 256, fp32);
  SumTree balanced{256, {}};
  for (std::int64_t node = 0; node < 255; ++node)
    balanced.nodes.push_back({2 * node, 2 * node + 1});
  const auto along = sum_by<Foreigner<float>>(TreeTeam{&balanced}, x);
  const auto any = sum_by<Foreigner<float>>(AnyOrderTeam{}, x);
  EXPECT_LT(along.radius, any.radius * 10 / 255);
  const Row shorter(x.begin(), x.end() - 1);
  EXPECT_EQ(sum_by<Foreigner<float>>(TreeTeam{&balanced}, shorter).radius,
            sum_by<Foreigner<float>>(AnyOrderTeam{}, shorter).radius);
}

}  // namespace
}  // namespace opbound
