// DoubleDouble against MPFR at 300 bits: every operation and function within DoubleDoubleFacts.
#include "reference/double_double.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "reference/mpfr.hpp"

namespace opbound {
namespace {

using Facts = DoubleDoubleFacts;
using Generator = std::mt19937_64;

constexpr mpfr_prec_t oracle_bits = 300;

/// Above (1 + 2^-53)^k for the few roundings with which a test evaluates a bound in double.
constexpr double roundings_here = 1 + 0x1p-48;

Mpfr value_of(DoubleDouble x) { return from<Mpfr>(x.high) + from<Mpfr>(x.low); }

std::uint64_t below(Generator& random, std::uint64_t n) { return random() % n; }

double uniform(Generator& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
}

double with_random_sign(Generator& random, double x) { return below(random, 2) == 0 ? x : -x; }

/// A significand in [1, 2): near 1, near 2, with few bits, or any.
double significand(Generator& random) {
  constexpr std::uint64_t fraction = (std::uint64_t{1} << 52) - 1;
  std::uint64_t bits = random() & fraction;
  switch (below(random, 6)) {
    case 0:
      bits = below(random, 16);
      break;
    case 1:
      bits = fraction - below(random, 16);
      break;
    case 2:
      bits = below(random, 64) << 46;
      break;
    default:
      break;
  }
  return std::bit_cast<double>(bits | (std::uint64_t{1023} << 52));
}

/// high with a low part of up to half an ulp of it: at the limit, just below, any, or far smaller.
DoubleDouble with_low_part(Generator& random, double high) {
  double share = uniform(random, -0.5, 0.5);
  switch (below(random, 6)) {
    case 0:
      share = 0.5;
      break;
    case 1:
      share = -0.5;
      break;
    case 2:
      share = 0.5 - 0x1p-53;
      break;
    case 3:
      share = std::ldexp(share, -static_cast<int>(below(random, 60)));
      break;
    case 4:
      share = 0;
      break;
    default:
      break;
  }
  const double low = share * std::ldexp(1.0, std::ilogb(high) - 52);
  return {high, high + low == high ? low : 0};
}

DoubleDouble pair(Generator& random, int exponent_spread) {
  const int spread =
      static_cast<int>(below(random, 2 * static_cast<unsigned>(exponent_spread) + 1));
  return with_low_part(
      random, with_random_sign(random, std::ldexp(significand(random), spread - exponent_spread)));
}

/// Counts results that break the law and keeps the largest relative error, in u^2.
class Judge {
 public:
  explicit Judge(double relative, double absolute = 0)
      : relative_(relative), absolute_(absolute + Facts::underflow) {}

  void look(DoubleDouble got, const Mpfr& exact, DoubleDouble input) {
    ASSERT_TRUE(is_finite(got)) << std::hexfloat << input.high << " " << input.low;
    EXPECT_EQ(got.high + got.low, got.high);
    const double error = to_double(abs(value_of(got) - exact));
    const double size = to_double(abs(exact));
    EXPECT_LE(error, relative_ * size * roundings_here + absolute_)
        << std::hexfloat << input.high << " " << input.low;
    if (size < 0x1p-840 || error <= absolute_) return;
    if (error / size > largest_) {
      largest_ = error / size;
      worst_ = input;
    }
  }

  void report(const char* name) const {
    std::printf("%-22s largest error %8.4f u^2, bound %5.1f u^2, at %a %a\n", name,
                largest_ / Facts::u2, relative_ / Facts::u2, worst_.high, worst_.low);
    EXPECT_LE(largest_, relative_);
  }

 private:
  double relative_;
  double absolute_;
  double largest_ = 0;
  DoubleDouble worst_;
};

// ---- operations
// ----------------------------------------------------------------------------------------------

using Sample = std::function<std::pair<DoubleDouble, DoubleDouble>(Generator&)>;

std::pair<DoubleDouble, DoubleDouble> close_pairs(Generator& random) {
  return {pair(random, 4), pair(random, 4)};
}

/// y close to -x, so that the sum cancels.
std::pair<DoubleDouble, DoubleDouble> cancelling_pairs(Generator& random) {
  const DoubleDouble x = pair(random, 4);
  const double off = std::ldexp(significand(random), -static_cast<int>(below(random, 56)));
  return {x, with_low_part(random, -x.high * (1 + off))};
}

void check_operation(const char* name, int count, double bound, const Sample& sample,
                     const std::function<DoubleDouble(DoubleDouble, DoubleDouble)>& got,
                     const std::function<Mpfr(const Mpfr&, const Mpfr&)>& exact) {
  const PrecisionScope scope(oracle_bits);
  Generator random(20220315);
  Judge judge(bound);
  for (int i = 0; i < count; ++i) {
    const auto [x, y] = sample(random);
    judge.look(got(x, y), exact(value_of(x), value_of(y)), x);
  }
  judge.report(name);
}

void check_operations(int count) {
  const auto plus = [](const auto& x, const auto& y) { return x + y; };
  const auto times = [](const auto& x, const auto& y) { return x * y; };
  const auto over = [](const auto& x, const auto& y) { return x / y; };
  check_operation("sum", count, Facts::add, close_pairs, plus, plus);
  check_operation("sum, cancelling", count, Facts::add, cancelling_pairs, plus, plus);
  check_operation("product", count, Facts::multiply, close_pairs, times, times);
  check_operation("quotient", count, Facts::divide, close_pairs, over, over);
  check_operation(
      "sqrt", count, Facts::sqrt, close_pairs, [](auto x, auto) { return sqrt(abs(x)); },
      [](const Mpfr& x, const Mpfr&) { return sqrt(abs(x)); });
  const auto one_double = [](Generator& random) {
    return std::pair{pair(random, 4), DoubleDouble{pair(random, 4).high, 0}};
  };
  check_operation(
      "sum with a double", count, 2 * Facts::u2, one_double,
      [](auto x, auto y) { return double_double::add(x, y.high); }, plus);
  check_operation(
      "product by a double", count, 2 * Facts::u2, one_double,
      [](auto x, auto y) { return double_double::multiply(x, y.high); }, times);
}

/// Operands of any size: what is finite obeys the law, with its absolute part.
void check_at_the_limits(int count) {
  const auto plus = [](const auto& x, const auto& y) { return x + y; };
  const auto times = [](const auto& x, const auto& y) { return x * y; };
  const auto over = [](const auto& x, const auto& y) { return x / y; };
  const PrecisionScope scope(2300);  // holds every sum of two pairs
  Generator random(20220316);
  Judge sums(Facts::add);
  Judge products(Facts::multiply);
  Judge quotients(Facts::divide);
  Judge roots(Facts::sqrt);
  int decided = 0;
  for (int i = 0; i < count; ++i) {
    const DoubleDouble x = pair(random, 1020);
    const DoubleDouble y = pair(random, 1020);
    const auto look = [&](Judge& judge, DoubleDouble got, const Mpfr& exact) {
      if (is_finite(got)) judge.look(got, exact, x), ++decided;
    };
    look(sums, x + y, plus(value_of(x), value_of(y)));
    look(products, x * y, times(value_of(x), value_of(y)));
    look(quotients, x / y, over(value_of(x), value_of(y)));
    look(roots, sqrt(abs(x)), sqrt(abs(value_of(x))));
  }
  EXPECT_GT(decided, 3 * count);
}

TEST(DoubleDouble, OperationsAreWithinTheirBounds) { check_operations(20'000); }
TEST(FullDoubleDouble, OperationsAreWithinTheirBounds) { check_operations(400'000); }
TEST(DoubleDouble, OperationsAtTheLimitsOfTheRange) { check_at_the_limits(5'000); }
TEST(FullDoubleDouble, OperationsAtTheLimitsOfTheRange) { check_at_the_limits(300'000); }

TEST(DoubleDouble, FmaIsAProductAndASum) {
  const PrecisionScope scope(oracle_bits);
  Generator random(7);
  for (int i = 0; i < 10'000; ++i) {
    const auto [a, b] = close_pairs(random);
    const DoubleDouble c = with_low_part(random, -a.high * b.high * (1 + uniform(random, 0, 1e-9)));
    const DoubleDouble got = fma(a, b, c);
    const Mpfr product = value_of(a) * value_of(b);
    const double error = to_double(abs(value_of(got) - (product + value_of(c))));
    EXPECT_LE(error, roundings_here * (Facts::multiply * to_double(abs(product)) +
                                       Facts::add * std::abs(got.high)));
  }
}

TEST(DoubleDouble, ExtremaAndSigns) {
  const DoubleDouble a{1, 0x1p-60};
  const DoubleDouble b{1, -0x1p-60};
  EXPECT_EQ(max(a, b), a);
  EXPECT_EQ(max(b, a), a);
  EXPECT_EQ(min(a, b), b);
  EXPECT_EQ(min(b, a), b);
  EXPECT_EQ(abs(-a), a);
  EXPECT_TRUE(is_negative(-a));
  EXPECT_FALSE(is_negative(a));
  EXPECT_EQ(pivot(a), a);
  const DoubleDouble lowest{-std::numeric_limits<double>::infinity(), 0};
  EXPECT_EQ(max(lowest, a), a);
  const DoubleDouble nan{0, std::nan("")};
  EXPECT_TRUE(is_nan(max(nan, a)));
  EXPECT_TRUE(is_nan(max(a, nan)));
  EXPECT_TRUE(is_nan(min(nan, a)));
  EXPECT_TRUE(is_nan(min(a, nan)));
}

// ---- functions
// ----------------------------------------------------------------------------------------------

/// A function, its bound, and where inputs come from: `ranges` uniformly, `centers` at distances
/// 2^0 ... 2^-100 on both sides.
struct Case {
  const char* name;
  DoubleDouble (*got)(DoubleDouble);
  Mpfr (*exact)(const Mpfr&);
  double bound;
  double absolute;
  std::vector<std::pair<double, double>> ranges;
  std::vector<double> centers;
  double input_min;
  double input_max;
};

constexpr double half_pi = 0x1.921fb54442d18p+0;
constexpr double no_limit = std::numeric_limits<double>::infinity();

#define OPBOUND_CASE(f) \
#f, [](DoubleDouble x) { return f(x); }, [](const Mpfr& x) { return f(x); }, Facts::f

const std::vector<Case> cases{
    {OPBOUND_CASE(exp),
     0,
     {{-665, 709}, {-20, 20}},
     {0, 0x1.62e42fefa39efp-8, 0.3465, 1},
     -no_limit,
     709},
    {OPBOUND_CASE(exp2), 0, {{-960, 1022}, {-20, 20}}, {0, 0x1p-7, 0.5, 1}, -no_limit, 1022},
    {OPBOUND_CASE(expm1),
     0,
     {{-50, 709}, {-1, 1}},
     {0, 0x1.62e42fefa39efp-8, -0.34657, 0.34657, 0.34115},
     -no_limit,
     709},
    {OPBOUND_CASE(log),
     0,
     {{0.5, 2}, {0, 1e5}, {0, 1e300}},
     {1, 0x1p-980, 0.70703125, 1.4140625, 1.0078125, 0.9921875},
     0x1p-999,
     no_limit},
    {OPBOUND_CASE(log1p),
     0,
     {{-0.5, 1}, {-1, 1e5}},
     {0, 0x1p-7, -0x1p-7, -1, -0.5},
     -1 + 0x1p-53,
     no_limit},
    {OPBOUND_CASE(tanh), 0, {{-45, 45}, {-1, 1}}, {0, 0x1p-8, 40}, -no_limit, no_limit},
    {OPBOUND_CASE(erf), 0, {{-7, 7}, {-1, 1}}, {0, 0.5, 26}, -no_limit, no_limit},
    {OPBOUND_CASE(erfc),
     0,
     {{-7, 27}, {-1, 3}, {0, 26}},
     {0, 0.5, -0.5, 1, 2, 4, 8, 16},
     -no_limit,
     no_limit},
    {OPBOUND_CASE(sin),
     Facts::angle_reduction,
     {{-0x1p20, 0x1p20}, {-10, 10}},
     {0, half_pi, 2 * half_pi, 4 * half_pi, half_pi / 2, 0x1.921fb54442d18p+15},
     -0x1p20,
     0x1p20},
    {OPBOUND_CASE(cos),
     Facts::angle_reduction,
     {{-0x1p20, 0x1p20}, {-10, 10}},
     {0, half_pi, 3 * half_pi, half_pi / 2, 0x1.921fb54442d18p+15},
     -0x1p20,
     0x1p20},
    {OPBOUND_CASE(rsqrt), 0, {{0, 4}, {0, 1e300}}, {1, 0x1p-900}, 0x1p-960, no_limit},
};
#undef OPBOUND_CASE

double input(Generator& random, const Case& c) {
  const std::uint64_t choice = below(random, c.ranges.size() + 2);
  if (choice < c.ranges.size())
    return uniform(random, c.ranges[choice].first, c.ranges[choice].second);
  const double center = c.centers[below(random, c.centers.size())];
  const double distance = std::ldexp(significand(random), -static_cast<int>(below(random, 101)));
  return center + with_random_sign(random, center == 0 ? distance : center * distance);
}

void check_function(const Case& c, int count) {
  const PrecisionScope scope(oracle_bits);
  Generator random(20220317);
  Judge judge(c.bound, c.absolute);
  for (int i = 0; i < count; ++i) {
    const double high = input(random, c);
    if (!(high > c.input_min && high < c.input_max)) continue;
    const DoubleDouble x = high == 0 ? DoubleDouble{} : with_low_part(random, high);
    judge.look(c.got(x), c.exact(value_of(x)), x);
  }
  judge.report(c.name);
}

TEST(DoubleDouble, FunctionsAreWithinTheirBounds) {
  for (const Case& c : cases) check_function(c, 10'000);
}
TEST(FullDoubleDouble, FunctionsAreWithinTheirBounds) {
  for (const Case& c : cases) check_function(c, 150'000);
}

TEST(DoubleDouble, WhatIsKnownExactlyIsExact) {
  const DoubleDouble zero{};
  const DoubleDouble one{1, 0};
  EXPECT_EQ(exp(zero), one);
  EXPECT_EQ(exp2(DoubleDouble{-3, 0}), (DoubleDouble{0.125, 0}));
  EXPECT_EQ(expm1(zero), zero);
  EXPECT_EQ(log(one), zero);
  EXPECT_EQ(log1p(zero), zero);
  EXPECT_EQ(tanh(zero), zero);
  EXPECT_EQ(erf(zero), zero);
  EXPECT_EQ(sin(zero), zero);
  EXPECT_EQ(cos(zero), one);
  EXPECT_EQ(rsqrt(DoubleDouble{4, 0}), (DoubleDouble{0.5, 0}));
  EXPECT_EQ(sqrt(zero), zero);
}

TEST(DoubleDouble, PiIsThePairNearestToIt) {
  const PrecisionScope scope(oracle_bits);
  const DoubleDouble got = pi<DoubleDouble>();
  const Mpfr exact = pi<Mpfr>();
  EXPECT_EQ(got.high, to_double(exact));
  EXPECT_EQ(got.low, to_double(exact - from<Mpfr>(got.high)));
}

TEST(DoubleDouble, WhatCannotBeDecidedIsNotFinite) {
  const auto of = [](double x) { return from<DoubleDouble>(x); };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Case& c : cases) {
    EXPECT_FALSE(is_finite(c.got(of(infinity)))) << c.name;
    EXPECT_FALSE(is_finite(c.got(of(-infinity)))) << c.name;
    EXPECT_FALSE(is_finite(c.got(of(std::nan(""))))) << c.name;
    EXPECT_FALSE(is_finite(c.got({1, std::nan("")}))) << c.name;
  }
  EXPECT_FALSE(is_finite(of(1) / of(0)));
  EXPECT_FALSE(is_finite(of(0) / of(0)));
  EXPECT_FALSE(is_finite(of(0x1p-970) / of(0x1p-200)));
  EXPECT_FALSE(is_finite(of(infinity) - of(1)));
  EXPECT_FALSE(is_finite(of(1) / of(infinity)));
  EXPECT_FALSE(is_finite(of(0x1p1000) * of(0x1p100)));
  EXPECT_FALSE(is_finite(of(0x1.fp1023) + of(0x1.fp1023)));
  EXPECT_FALSE(is_finite(sqrt(of(-1))));
  EXPECT_FALSE(is_finite(sqrt(of(0x1p-970))));
  EXPECT_FALSE(is_finite(exp(of(710))));
  EXPECT_FALSE(is_finite(exp2(of(1023))));
  EXPECT_FALSE(is_finite(log(of(0))));
  EXPECT_FALSE(is_finite(log(of(-1))));
  EXPECT_FALSE(is_finite(log1p(of(-1))));
  EXPECT_FALSE(is_finite(sin(of(0x1.1p20))));
  EXPECT_FALSE(is_finite(rsqrt(of(0))));
}

}  // namespace
}  // namespace opbound
