// Bounds of large products under attack: kernels of every order with products fused or rounded, in
// the families that lose most; and faults that both ways have to find.
#include "bounds/product.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "bounds/judge.hpp"
#include "reference/mpfr.hpp"

namespace opbound {
namespace {

using Random = std::mt19937_64;
using Row = std::vector<double>;

double normal(Random& random) { return std::normal_distribution<double>()(random); }

enum class Family { ordinary, cancelling, wide, same_sign, subnormal, count };

/// Operands in `f`.
Row operands(Random& random, Family family, std::size_t k, const Format& f, bool is_second) {
  Row x;
  for (std::size_t t = 0; t < k; ++t) {
    double v = normal(random);
    if (family == Family::cancelling) v = (t % 2 == 0 || !is_second ? 1 : -1) + 0x1p-7 * v;
    if (family == Family::wide) v *= std::exp2(static_cast<double>(random() % 30) - 15);
    if (family == Family::same_sign) v = std::fabs(v) + 1;
    if (family == Family::subnormal) v *= is_second ? 0x1p-60 : 0x1p-80;
    x.push_back(round_to(f, v));
  }
  return x;
}

/// One of many kernels in fp32: a random tree over a random order, products fused where they meet a
/// sum of one, or in turn.
float some_kernel(Random& random, Row a, Row b) {
  const auto k = a.size();
  std::vector<std::size_t> order(k);
  for (std::size_t t = 0; t < k; ++t) order[t] = t;
  std::shuffle(order.begin(), order.end(), random);
  const auto first = [&](std::size_t t) { return static_cast<float>(a[t]); };
  const auto second = [&](std::size_t t) { return static_cast<float>(b[t]); };
  const std::uint64_t way = random() % 3;
  if (way < 2) {  // in turn, fused or not
    float sum = first(order[0]) * second(order[0]);
    for (std::size_t i = 1; i < k; ++i) {
      const float x = first(order[i]), y = second(order[i]), product = x * y;
      sum = way == 0 ? std::fma(x, y, sum) : sum + product;
    }
    return sum;
  }
  std::vector<float> terms;
  for (const std::size_t t : order) terms.push_back(first(t) * second(t));
  while (terms.size() > 1) {  // two anywhere become one
    const std::size_t i = random() % terms.size();
    std::swap(terms[i], terms.back());
    const float x = terms.back();
    terms.pop_back();
    terms[random() % terms.size()] += x;
  }
  return terms[0];
}

struct Sums {
  double sum = 0, size = 0;
};
Sums in_fp64(const Row& a, const Row& b) {
  Sums s;
  for (std::size_t t = 0; t < a.size(); ++t) {
    s.sum = std::fma(a[t], b[t], s.sum);
    s.size = std::fma(std::fabs(a[t]), std::fabs(b[t]), s.size);
  }
  return s;
}

Mpfr exactly(const Row& a, const Row& b) {
  Mpfr sum = from<Mpfr>(0.0);
  for (std::size_t t = 0; t < a.size(); ++t) sum = sum + from<Mpfr>(a[t]) * from<Mpfr>(b[t]);
  return sum;
}

double distance(const Mpfr& x, double y) { return std::fabs(to_double(x - from<Mpfr>(y))); }

TEST(ProductElement, BoundsEveryOrder) {
  const PrecisionScope scope(2000);
  Random random(5);
  double of_bound = 0, of_radius = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto family = static_cast<Family>(i % static_cast<int>(Family::count));
    const Format& f = i % 3 == 0 ? bf16 : i % 3 == 1 ? fp16 : fp32;
    const std::size_t k = i % 50 == 0 ? 2000 : 1 + random() % 60;
    const Row a = operands(random, family, k, f, false), b = operands(random, family, k, f, true);
    const Sums s = in_fp64(a, b);
    const ProductElement e(static_cast<double>(k), s.sum, s.size, fp32);
    const Mpfr exact = exactly(a, b);
    const double radius = e.exact.radius, error = distance(exact, s.sum);
    ASSERT_LE(error, radius) << i;
    const double off = distance(exact, some_kernel(random, a, b));
    ASSERT_LE(off, e.bound) << i;
    if (radius > 0) of_radius = std::max(of_radius, error / radius);
    if (e.bound > 0) of_bound = std::max(of_bound, off / e.bound);
  }
  RecordProperty("largest_ratio_bound", std::to_string(of_bound));
  RecordProperty("largest_ratio_radius", std::to_string(of_radius));
}

/// (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 is off by u once rounded: the bound is u M (1 + u), M < 1 +
/// 2^-10.
TEST(ProductElement, IsReached) {
  const double square = (1 + 0x1p-12) * (1 + 0x1p-12);
  EXPECT_EQ(square - round_to(fp32, square), 0x1p-24);
  EXPECT_LE(ProductElement(1, square, square, fp32).bound, 0x1p-24 * (1 + 0x1p-10));
}

TEST(ProductElement, FindsADroppedTermAndALowAccumulator) {
  Random random(9);
  int dropped = 0, low = 0;
  constexpr int tries = 200;
  for (int i = 0; i < tries; ++i) {
    const Row a = operands(random, Family::same_sign, 64, bf16, false);
    const Row b = operands(random, Family::same_sign, 64, bf16, true);
    const Sums s = in_fp64(a, b);
    const ProductElement e(64, s.sum, s.size, fp32);
    const Sums all_but_last = in_fp64(Row(a.begin(), a.end() - 1), Row(b.begin(), b.end() - 1));
    const auto verdict = [&](double got) {
      return judge(e.exact, e.bound, e.gauge, got, {fp32, false}).verdict;
    };
    EXPECT_EQ(verdict(some_kernel(random, a, b)), Verdict::within);
    dropped += verdict(round_to(fp32, all_but_last.sum)) == Verdict::exceeds ? 1 : 0;
    double in_bf16 = 0;
    for (std::size_t t = 0; t < a.size(); ++t) in_bf16 = round_to(bf16, in_bf16 + a[t] * b[t]);
    low += verdict(in_bf16) == Verdict::exceeds ? 1 : 0;
  }
  EXPECT_EQ(dropped, tries);
  EXPECT_EQ(low, tries);
}

TEST(ProductElement, SpecialValues) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const ProductElement nan(4, std::nan(""), infinite, fp32);
  EXPECT_EQ(nan.exact.kind, Exact::Class::nan);
  EXPECT_EQ(nan.bound, 0);  // claimed: an operand is not finite
  const ProductElement infinity(4, -infinite, infinite, fp32);
  EXPECT_EQ(infinity.exact.kind, Exact::Class::minus_infinity);
  EXPECT_EQ(infinity.bound, infinite);  // finite terms may overflow to the other one on the way
  EXPECT_EQ(ProductElement(4, 1, 1e39, fp32).bound, infinite);
  EXPECT_LT(ProductElement(4, 1, 1e37, fp32).bound, 1e37);
}

/// One row of a product: d v against a (b v).
struct RowCheck {
  Row a;
  std::vector<Row> columns;
  Row d;

  ProductRow bound(const Format& stored) const {
    double q = 0, size = 0;
    for (std::size_t j = 0; j < d.size(); ++j) {
      q += in_fp64(a, columns[j]).size;
      size += std::fabs(d[j]);
    }
    return {static_cast<double>(a.size()), static_cast<double>(d.size()), q, size, fp32, stored};
  }
  RowVerdict by(Random& random, const Format& stored) const {
    Row bv(a.size());
    double dv = 0;
    for (std::size_t j = 0; j < d.size(); ++j) {
      const double sign = random() % 2 == 0 ? 1 : -1;
      dv += sign * d[j];
      for (std::size_t t = 0; t < a.size(); ++t) bv[t] += sign * columns[j][t];
    }
    return bound(stored).of(dv, in_fp64(a, bv).sum);
  }
};

RowCheck row_of(Random& random, Family family, const Format& stored) {
  RowCheck r;
  const std::size_t k = 1 + random() % 60, n = 1 + random() % 40;
  r.a = operands(random, family, k, bf16, false);
  for (std::size_t j = 0; j < n; ++j) {
    r.columns.push_back(operands(random, family, k, bf16, true));
    r.d.push_back(round_to(stored, some_kernel(random, r.a, r.columns.back())));
  }
  return r;
}

TEST(ProductRow, PassesEveryCorrectKernel) {
  Random random(11);
  for (int i = 0; i < 4000; ++i) {
    const auto family = static_cast<Family>(i % static_cast<int>(Family::count));
    const Format& stored = i % 2 == 0 ? bf16 : fp32;
    const RowCheck r = row_of(random, family, stored);
    ASSERT_EQ(r.by(random, stored), RowVerdict::passes) << i;
  }
}

/// The probability that its derivation states: at most 1/2 for one vector.
TEST(ProductRow, MissesAnElementBeyondItsSlackAtMostHalfTheTime) {
  Random random(13);
  int missed = 0, missed_by_eight = 0;
  constexpr int tries = 1000;
  for (int i = 0; i < tries; ++i) {
    RowCheck r = row_of(random, Family::ordinary, fp32);
    r.d[random() % r.d.size()] += 4 * r.bound(fp32).slack;
    missed += r.by(random, fp32) == RowVerdict::passes ? 1 : 0;
    bool passes = true;
    for (int v = 0; v < 8; ++v) passes = passes && r.by(random, fp32) == RowVerdict::passes;
    missed_by_eight += passes ? 1 : 0;
  }
  EXPECT_LE(missed, tries / 2);
  EXPECT_LE(missed_by_eight, tries >> 8);
}

TEST(ProductRow, SaysNothingOfWhatMayHaveOverflowed) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ProductRow(4, 4, 1, infinite, fp32, bf16).of(infinite, 1), RowVerdict::fails);
  EXPECT_EQ(ProductRow(4, 4, 1e39, infinite, fp32, bf16).of(infinite, 1), RowVerdict::unjudged);
  EXPECT_EQ(ProductRow(4, 4, 1e5, infinite, fp32, fp16).of(infinite, 1), RowVerdict::unjudged);
  EXPECT_EQ(ProductRow(4, 4, 1, 1, fp32, bf16).of(std::nan(""), 1), RowVerdict::fails);
}

}  // namespace
}  // namespace opbound
