// The bounds of merged means and squares for every order: against single-precision merges along
// chains and random trees and Welford's own update, on numbers that are known exactly or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ops/layer_norm.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using Random = std::mt19937_64;

double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// Merges as kernels write them.
Moments<float> merge(const Moments<float>& a, const Moments<float>& b, Random& random) {
  if (b.count == 1 && random() % 2 == 0) {  // Welford 1962
    const auto n = static_cast<float>(a.count + 1);
    const float delta = b.mean - a.mean, mean = a.mean + delta / n;
    return {a.count + 1, mean, a.squares + delta * (b.mean - mean)};
  }
  return MergeMoments::combine(a, b);
}

/// way 0: one number after the other; 1: as the parts of a halved row; 2: at random.
Moments<float> merged(std::vector<Moments<float>> parts, int way, Random& random) {
  while (parts.size() > 1) {
    const std::size_t last = parts.size() - 1;
    const std::size_t a = way == 0 ? 0 : random() % last, b = way == 0 ? 1 : last;
    if (way == 1) {
      std::vector<Moments<float>> half;
      for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
        half.push_back(merge(parts[i], parts[i + 1], random));
      if (parts.size() % 2 != 0) half.push_back(parts.back());
      parts = half;
      continue;
    }
    const bool turned = way == 2 && random() % 2 == 0;
    parts[a] = turned ? merge(parts[b], parts[a], random) : merge(parts[a], parts[b], random);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(b));
  }
  return parts[0];
}

/// Rows with a mean above sigma, sorted rows, outliers, values below float's precision.
std::vector<double> row(Random& random, std::size_t n, bool is_exact) {
  std::vector<double> x(n);
  const double offset = random() % 2 == 0 ? 0 : std::pow(10, 6 * uniform(random));
  const bool has_outlier = random() % 3 == 0;
  for (double& v : x) {
    v = offset + 2 * uniform(random) - 1;
    if (is_exact) v = static_cast<float>(v);
  }
  if (has_outlier) x[random() % n] = 1e4;
  if (random() % 3 == 0) std::sort(x.begin(), x.end());
  return x;
}

TEST(AnyMergeOrder, HoldsForChainsAndTrees) {
  Random random(41);
  double largest_mean = 0, largest_squares = 0;
  for (int attempt = 0; attempt < 3000; ++attempt) {
    const std::size_t n = 2 + random() % (attempt % 10 == 0 ? 1000 : 40);
    const std::vector<double> x = row(random, n, attempt % 2 == 0);
    std::vector<Moments<float>> parts;
    long double mean = 0, squares = 0;
    double top = 0, leaf = 0;
    for (const double v : x) {
      const auto loaded = static_cast<float>(v);
      parts.push_back({1, loaded, 0});
      mean += static_cast<long double>(v) / static_cast<long double>(n);
      top = std::max(top, std::fabs(v));
      leaf = std::max(leaf, std::fabs(v - static_cast<double>(loaded)));
    }
    for (const double v : x) squares += (v - mean) * (v - mean);
    const auto exact_squares = static_cast<double>(squares) * (1 + 0x1p-50);
    const detail::AnyMergeOrder bound(static_cast<std::int64_t>(n), top, exact_squares, leaf, fp32);
    const Moments<float> got = merged(parts, static_cast<int>(random() % 3), random);
    const auto mean_error = static_cast<double>(std::fabs(got.mean - mean));
    const auto squares_error = static_cast<double>(std::fabs(got.squares - squares));
    ASSERT_LE(mean_error, bound.mean()) << n;
    ASSERT_LE(squares_error, bound.squares()) << n;
    if (bound.mean() > 0) largest_mean = std::max(largest_mean, mean_error / bound.mean());
    if (bound.squares() > 0)
      largest_squares = std::max(largest_squares, squares_error / bound.squares());
  }
  RecordProperty("largest_ratio_mean", std::to_string(largest_mean));
  RecordProperty("largest_ratio_squares", std::to_string(largest_squares));
  EXPECT_GT(largest_mean, 0.1);
  EXPECT_GT(largest_squares, 0.02);
}

/// 3e38 and -2e38 merged first give an infinite difference, in another order there is none.
TEST(AnyMergeOrder, SaysNothingWhereADifferenceOfMeansMayOverflow) {
  const std::vector<float> row{3e38F, 0, 0, 0, -2e38F};
  const auto first = MergeMoments::combine(Moments<float>{1, row[0], 0}, {1, row[4], 0});
  EXPECT_FALSE(std::isfinite(first.mean));
  const auto bounded = MergeMoments::any_order(5, [&](std::int64_t i) {
    const auto x =
        from<Tracked<float, Foreign>>(static_cast<double>(row[static_cast<std::size_t>(i)]));
    return Moments<Tracked<float, Foreign>>{1, x, {}};
  });
  EXPECT_TRUE(std::isinf(bounded.mean.radius));
}

/// All errors in one direction, each number at its place: one number at a time, the worst tree.
TEST(AnyMergeOrder, IsNotFarAboveAChainOfRoundingsInOneDirection) {
  const double u = 0x1p-24;
  const std::int64_t n = 777;
  double error = 0;  // of the mean: u |mean| at each step, averaged from then on
  for (std::int64_t i = 2; i <= n; ++i) {
    const auto k = static_cast<double>(i);
    error = error * (k - 1) / k + u * 1000;
  }
  const detail::AnyMergeOrder bound(n, 1000, n / 3.0, 0, fp32);
  EXPECT_LE(error, bound.mean());
  EXPECT_LE(bound.mean(), 1.02 * error);
}

/// Sums of 777 squares divided by 776, judged as any of the algorithms.
TEST(LayerNorm, DividingByOneLessIsFoundWhicheverAlgorithmItMayBe) {
  CaseSpec spec = attack::case_for("layer_norm", Direction::forward, "fp32", {4, 777});
  Prepared p = prepare(spec);
  spec.op->run(p.call);
  std::vector<int> all(layer_norm::variants.size());
  for (std::size_t v = 0; v < all.size(); ++v) all[v] = static_cast<int>(v);
  const Contract any{all, Contract::Order::any, cuda_function_errors, {}};
  const BoundArrays bounds = bounds_of(*spec.op, p.call, any);
  const auto counts = [&] { return certify(*spec.op, p.call, bounds).front().counts; };
  EXPECT_EQ(counts().within, 4U * 777);
  TensorView y = p.call.forward[layer_norm::forward::y];
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const double beta = p.call.forward[layer_norm::forward::beta].at(i % 777);
    y.set(i, static_cast<float>((y.at(i) - beta) * std::sqrt(776.0 / 777) + beta));
  }
  EXPECT_GT(counts().exceeds, 0U);
}

}  // namespace
}  // namespace opbound
