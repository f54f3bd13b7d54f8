// Matrix units: every step against a slow model, bounds against kernels of other orders.
#include "ops/matmul/unit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bounds/tracked_functions.hpp"
#include "reference/mpfr.hpp"
#include "tests/attack_perturbed.hpp"

namespace opbound {
namespace {

using attack::chance;
using attack::Random;
using attack::share;
using attack::whole;
using detail::UnitBlock;
using detail::UnitSum;

constexpr int exact_bits = 1200;  // sums of products of any of these formats are exact

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

/// A factor from where units differ: near 1, of any exponent, subnormal, 0.
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
      return chance(random, 3) ? 0 : sign * std::ldexp(1.0, whole(random, least, most));
    default:
      return round_to(f, 4 * share(random) - 2);
  }
}

/// The model as it is written down, on exact numbers.
double slow_step(const MatrixUnit& u, const Format& f, const UnitBlock& x, double c) {
  const PrecisionScope scope(exact_bits);
  const auto exponent = [](double v, int least) { return std::max(std::ilogb(v), least); };
  int largest = -133;
  if (c != 0) largest = std::max(largest, exponent(c, -126));
  for (int i = 0; i < x.count; ++i)
    if (x.a[i] != 0 && x.b[i] != 0)
      largest =
          std::max(largest, exponent(x.a[i], f.exponent_min) + exponent(x.b[i], f.exponent_min));
  const auto cut = [](Mpfr v, int q) {
    mpfr_mul_2si(v.get(), v.get(), -q, MPFR_RNDN);
    mpfr_trunc(v.get(), v.get());
    mpfr_mul_2si(v.get(), v.get(), q, MPFR_RNDN);
    return v;
  };
  Mpfr sum = cut(from<Mpfr>(c), largest - u.fraction);
  for (int i = 0; i < x.count; ++i)
    sum = sum + cut(from<Mpfr>(x.a[i]) * from<Mpfr>(x.b[i]), largest - u.fraction);
  if (mpfr_zero_p(sum.get()) != 0) return 0;
  const int e = std::max<int>(static_cast<int>(mpfr_get_exp(sum.get())) - 1, -126);
  const double value = to_double(cut(sum, e - u.digits + 1));
  return std::fabs(value) > fp32.largest() ? std::copysign(HUGE_VAL, value) : value;
}

void compare_with_slow_model(int cases, std::uint64_t seed) {
  Random random(seed);
  const auto units = all_units();
  for (int k = 0; k < cases; ++k) {
    const Case& c = attack::pick(random, units);
    const MatrixUnit u = matrix_unit(c.generation, c.format);
    UnitBlock x;
    const int family = whole(random, 0, 4);
    x.count = whole(random, 0, u.block);
    for (int i = 0; i < x.count; ++i) {
      x.a[i] = some_factor(random, c.format, chance(random, 3) ? whole(random, 0, 4) : family);
      x.b[i] = some_factor(random, c.format, family == 2 ? 1 : family);
    }
    const double sum = some_factor(random, fp32, whole(random, 0, 4));
    const auto got = detail::unit_step(u, c.format, c.format, x, sum);
    ASSERT_EQ(got.value, slow_step(u, c.format, x, sum)) << name_of(c.format) << " " << k;
    const PrecisionScope scope(exact_bits);
    Mpfr exact = from<Mpfr>(sum);
    for (int i = 0; i < x.count; ++i) exact = exact + from<Mpfr>(x.a[i]) * from<Mpfr>(x.b[i]);
    if (std::isfinite(got.value)) {
      ASSERT_LE(to_double(abs(exact - from<Mpfr>(got.value))), detail::up(got.lost)) << k;
    }
  }
}

TEST(MatrixUnit, StepsAreTheModels) { compare_with_slow_model(50000, 1); }
TEST(FullMatrixUnit, StepsAreTheModels) { compare_with_slow_model(2000000, 2); }

/// One probe of a unit: 1 - 1 + 2^-k, the last within the step or as the sum so far.
double left_of(const MatrixUnit& u, const Format& f, int k) {
  UnitBlock x;
  const auto add = [&](double a, double b) {
    x.a[x.count] = a;
    x.b[x.count++] = b;
  };
  add(-1, 1);
  add(std::ldexp(1.0, -(k / 2)), std::ldexp(1.0, -(k - k / 2)));
  return detail::unit_step(u, f, f, x, 1).value;
}

/// Bits that an H200's mma.sync was seen to keep, with block sizes and truncation: bf16 and fp16
/// 25, tf32 25 (probe of this project's own, driver 580).
TEST(MatrixUnit, KeepsTheBitsThatWereMeasured) {
  for (const auto& [f, bits, block] : {std::tuple{bf16, 25, 16}, {fp16, 25, 16}, {tf32, 25, 8}}) {
    const MatrixUnit u = matrix_unit(Generation::hopper, f);
    EXPECT_EQ(u.block, block);
    EXPECT_EQ(left_of(u, f, bits), std::ldexp(1.0, -bits)) << name_of(f);
    EXPECT_EQ(left_of(u, f, bits + 1), 0) << name_of(f);
  }
}

/// Sums of k products by a unit, ours or somebody else's: a shuffle of the terms, blocks that may
/// be shorter, and partial sums that are added in fp32.
struct Product {
  std::vector<double> a, b;

  template <class T>
  T along(const MatrixUnit& u, const Format& f) const {
    UnitSum<T> sum;
    sum.run(
        u, f, f, std::ssize(a),
        [&](std::int64_t i) { return from<T>(a[static_cast<std::size_t>(i)]); },
        [&](std::int64_t i) { return from<T>(b[static_cast<std::size_t>(i)]); });
    return sum.value;
  }

  float by_another(Random& random, const MatrixUnit& u, const Format& f) const {
    std::vector<std::size_t> order(a.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    const auto at_once = static_cast<std::size_t>(detail::at_once(u));
    const std::size_t most_parts = (a.size() + at_once - 1) / at_once;
    const std::size_t parts = 1 + random() % std::max<std::size_t>(1, most_parts);
    const bool is_even = chance(random, 2);
    float total = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      Product own;
      // equal parts, or a term each and one with all the rest
      const std::size_t step = is_even ? parts : 1, first = part;
      const std::size_t end = is_even || part + 1 == parts ? order.size() : part + 1;
      for (std::size_t i = first; i < end; i += step) {
        own.a.push_back(a[order[i]]);
        own.b.push_back(b[order[i]]);
      }
      const float sum = own.along<float>(u, f);
      total = part == 0 ? sum : total + sum;
    }
    return total;
  }

  double exact() const {
    const PrecisionScope scope(exact_bits);
    Mpfr sum = from<Mpfr>(0.0);
    for (std::size_t i = 0; i < a.size(); ++i) sum = sum + from<Mpfr>(a[i]) * from<Mpfr>(b[i]);
    return to_double(sum);
  }
};

Product some_product(Random& random, const Format& f, int most) {
  Product p;
  const int family = whole(random, 0, 4);
  for (int k = whole(random, 1, most); k > 0; --k) {
    p.a.push_back(some_factor(random, f, family));
    p.b.push_back(some_factor(random, f, family == 2 ? 1 : whole(random, 0, 4)));
  }
  return p;
}

/// Over all units: no kernel exceeds, and where it was attacked bounds are not idle.
void attack_bounds(int cases, int most, std::uint64_t seed) {
  Random random(seed);
  const auto units = all_units();
  double own_use = 0, foreign_use = 0;
  for (int k = 0; k < cases; ++k) {
    const Case& c = attack::pick(random, units);
    const MatrixUnit u = matrix_unit(c.generation, c.format);
    const Product p = some_product(random, c.format, most);
    const double exact = p.exact(), slack = 0x1p-50 * std::fabs(exact);
    const auto own = p.along<Tracked<float, Own>>(u, c.format);
    const auto any = p.along<Tracked<float, Foreign>>(u, c.format);
    ASSERT_EQ(own.value, p.along<float>(u, c.format));
    if (std::isfinite(own.radius)) {
      const double error = std::fabs(static_cast<double>(own.value) - exact);
      ASSERT_LE(error, own.radius + slack) << name_of(c.format) << " " << k;
      if (own.radius > 0) own_use = std::max(own_use, error / own.radius);
    }
    if (!std::isfinite(any.radius)) continue;
    for (int again = 0; again < 3; ++again) {
      const double theirs = p.by_another(random, u, c.format);
      ASSERT_LE(std::fabs(theirs - exact), any.radius + slack) << name_of(c.format) << " " << k;
      ASSERT_LE(std::fabs(theirs - static_cast<double>(own.value)), any.spread) << k;
      if (any.radius > 0)
        foreign_use = std::max(foreign_use, std::fabs(theirs - exact) / any.radius);
    }
  }
  EXPECT_GT(own_use, 0.9);
  EXPECT_GT(foreign_use, 0.1);
}

TEST(MatrixUnit, NoKernelOfAUnitExceedsItsBound) { attack_bounds(20000, 40, 3); }
TEST(FullMatrixUnit, NoKernelOfAUnitExceedsItsBound) {
  attack_bounds(300000, 40, 4);
  attack_bounds(3000, 3000, 5);
}

/// 1, and products just below what the unit keeps beside it: all are lost, 0.76 of the bound.
TEST(MatrixUnit, TheWorstCaseIsReached) {
  const MatrixUnit u = matrix_unit(Generation::hopper, bf16);
  Product p{{1}, {1}};
  for (int i = 0; i < 16 * 64 - 1; ++i) {
    p.a.push_back(std::ldexp(1 - 0x1p-8, -13));
    p.b.push_back(std::ldexp(1 - 0x1p-8, -12));
  }
  const auto any = p.along<Tracked<float, Foreign>>(u, bf16);
  EXPECT_EQ(to_double(any), 1);
  EXPECT_GT((p.exact() - 1) / any.radius, 0.5);
}

/// Hopper keeps 13 bits of fp8's products, Blackwell 25: the one is no kernel of the other.
TEST(MatrixUnit, AnotherGenerationIsFound) {
  Random random(9);
  Product p;
  for (int i = 0; i < 512; ++i) {
    p.a.push_back(round_to(e4m3, share(random)));
    p.b.push_back(round_to(e4m3, share(random)));
  }
  const double exact = p.exact();
  const double got = p.along<float>(matrix_unit(Generation::hopper, e4m3), e4m3);
  const auto error_in = [&](Generation g) {
    return std::fabs(got - exact) /
           p.along<Tracked<float, Foreign>>(matrix_unit(g, e4m3), e4m3).radius;
  };
  EXPECT_LE(error_in(Generation::hopper), 1);
  EXPECT_GT(error_in(Generation::blackwell), 10);
}

/// No execution cuts anything off from zeros; one product that is not 0 may be cut off.
TEST(MatrixUnit, ZerosAreSummedWithoutError) {
  using F = Tracked<float, Foreign>;
  const MatrixUnit unit = matrix_unit(Generation::hopper, bf16);
  for (const double last : {0.0, 0x1p-120}) {
    detail::UnitSum<F> sum;
    sum.run(
        unit, bf16, bf16, 40, [&](std::int64_t i) { return from<F>(i == 39 ? last : 0); },
        [](std::int64_t) { return from<F>(3.0); });
    EXPECT_EQ(sum.value.radius == 0, last == 0) << last;
    EXPECT_EQ(sum.value.spread == 0, last == 0) << last;
  }
}

}  // namespace
}  // namespace opbound
