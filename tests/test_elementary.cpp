// ops/elementary.hpp against MPFR: the stated errors of the double functions, correct rounding of
// the float functions on a stride, of the 16-bit formats on every input, and special values.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/number.hpp"
#include "tests/elementary_oracle.hpp"

namespace opbound::oracle {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// |got - exact| in ulp of exact (of a format with these digits and this smallest normal exponent);
/// infinity counts as 2^(exponent_max + 1), which is what overflows to it.
double error_ulp(const Format& f, double got, Number& exact) {
  if (std::isnan(got) || mpfr_nan_p(exact.get()) != 0)
    return std::isnan(got) && mpfr_nan_p(exact.get()) != 0 ? 0 : inf;
  if (mpfr_zero_p(exact.get()) != 0 || mpfr_inf_p(exact.get()) != 0)
    return got == mpfr_get_d(exact.get(), MPFR_RNDN) ? 0 : inf;
  Number beyond, difference;
  mpfr_set_ui_2exp(beyond.get(), 1, f.exponent_max + 1, MPFR_RNDN);
  if (std::isinf(got)) {
    if (mpfr_cmpabs(exact.get(), beyond.get()) >= 0)
      return (got > 0) == (mpfr_sgn(exact.get()) > 0) ? 0 : inf;
    mpfr_set(difference.get(), beyond.get(), MPFR_RNDN);
    if (got < 0) mpfr_neg(difference.get(), difference.get(), MPFR_RNDN);
  } else {
    mpfr_set_d(difference.get(), got, MPFR_RNDN);
  }
  const auto exponent = std::max<mpfr_exp_t>(mpfr_get_exp(exact.get()) - 1, f.exponent_min);
  mpfr_sub(difference.get(), difference.get(), exact.get(), MPFR_RNDA);
  mpfr_mul_2si(difference.get(), difference.get(), f.digits - 1 - exponent, MPFR_RNDA);
  return std::fabs(mpfr_get_d(difference.get(), MPFR_RNDA));
}

// ---- inputs

/// Where a function is neither constant nor linear, and points around which its algorithm changes.
struct Range {
  double low, high;
  std::vector<double> critical;
};

/// The doubles next to multiples of `step`, for which an argument reduction is hardest.
void add_multiples(std::vector<double>& points, double step, int first, int last) {
  for (int i = first; i <= last; ++i) points.push_back(i * step);
}

/// The doubles nearest to n pi/2 for n = 2^i, and the one nearest of all to such a multiple
/// (6381956970095103 * 2^797; Muller 2016, chapter 11).
std::vector<double> hard_angles() {
  std::vector<double> points{0x1.6ac5b262ca1ffp+849};
  Number half_pi, product;
  mpfr_const_pi(half_pi.get(), MPFR_RNDN);
  mpfr_div_2ui(half_pi.get(), half_pi.get(), 1, MPFR_RNDN);
  for (long n = 1; n < 1L << 40; n += 1 + n / 8) {
    mpfr_mul_si(product.get(), half_pi.get(), n, MPFR_RNDN);
    points.push_back(mpfr_get_d(product.get(), MPFR_RNDN));
  }
  return points;
}

Range range_of(Function f) {
  const double half_ln2 = ln2.high / 2;
  std::vector<double> c{0x1p-54, 0x1p-28, 0x1p-27, 0x1p-1022, 0x1p-1074};
  switch (f) {
    case Function::exp:
    case Function::expm1:
      add_multiples(c, half_ln2, -2150, 2050);
      c.insert(c.end(), {-745.1332191019412, 709.782712893384, -708.3964185322641, -40, 700});
      return {-750, 712, c};
    case Function::exp2:
      add_multiples(c, 0.5, -2152, 2050);
      return {-1080, 1026, c};
    case Function::log:
      for (int k = -1022; k < 1024; k += 31) c.push_back(power_of_two(k) * sqrt_half.high);
      c.insert(c.end(), {1, sqrt_half.high, 2 * sqrt_half.high, 1.7976931348623157e308});
      return {0, 4, c};
    case Function::log1p:
      c.insert(c.end(), {-1, sqrt_half.high - 1, 2 * sqrt_half.high - 1, 0x1p53, 0x1p1023});
      return {-1, 4, c};
    case Function::tanh:
      add_multiples(c, half_ln2 / 2, -120, 120);
      return {-20, 20, c};
    case Function::erf:
      c.insert(c.end(), {0.75, 3, 6});
      return {-6.5, 6.5, c};
    case Function::erfc:
      c.insert(c.end(), {0.75, 1.5, 3, 26.543, 27.2, 27.3});
      return {-6.5, 28, c};
    case Function::sin:
    case Function::cos:
      return {-1e4, 1e4, hard_angles()};
    default:
      c.insert(c.end(), {1, 2, 4, 0x1p-900, 0x1p1023});
      return {0, 4, c};
  }
}

std::vector<double> inputs(const Range& range, std::size_t count, std::mt19937_64& random) {
  std::vector<double> x;
  std::uniform_real_distribution<double> uniform(range.low, range.high), exponent(-60, 10);
  while (x.size() < count) {
    switch (random() % 4) {
      case 0:
        x.push_back(std::bit_cast<double>(random()));
        break;
      case 1:
        x.push_back((random() % 2 == 0 ? -1 : 1) * std::exp2(exponent(random)));
        break;
      case 2: {  // within 8 ulp of a critical point
        const double point = range.critical[random() % range.critical.size()];
        const auto bits = std::bit_cast<std::uint64_t>(point) + random() % 17 - 8;
        x.push_back((random() % 4 == 0 ? -1 : 1) * std::bit_cast<double>(bits));
        break;
      }
      default:
        x.push_back(uniform(random));
    }
  }
  return x;
}

// ---- double

class Elementary : public testing::TestWithParam<Unary> {};

TEST_P(Elementary, DoubleStaysWithinItsStatedError) {
  const Unary& f = GetParam();
  std::mt19937_64 random(1);
  Number exact;
  double worst = 0, worst_input = 0;
  for (const double x : inputs(range_of(f.function), 100'000, random)) {
    evaluate(f, x, exact);
    const double error = error_ulp(fp64, f.of_double(x), exact);
    if (error > worst) std::tie(worst, worst_input) = std::pair(error, x);
  }
  RecordProperty("error_ulp", std::to_string(worst));
  std::printf("%-6s %.4f ulp at %a, stated %.2f\n", f.name, worst, worst_input,
              fp64_error_ulp(f.function));
  EXPECT_LE(worst, fp64_error_ulp(f.function)) << "at " << worst_input;
}

// ---- float and 16 bits

TEST_P(Elementary, FloatIsCorrectlyRoundedOnAStride) {
  const Unary& f = GetParam();
  constexpr std::uint32_t stride = 4099;  // prime: about 2^20 inputs, all exponents, all low bits
  Number scratch;
  long undecided = 0, wrong = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    float got = 0;
    f.of_floats(&x, &got, 1);
    if (!same(got, correctly_rounded(f, x, scratch, undecided))) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

/// x rounded to f by MPFR, its subnormals and its overflow included.
double round_by_mpfr(const Format& f, Number& x) {
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_t rounded;
  mpfr_init2(rounded, f.digits);
  int ternary = mpfr_set(rounded, x.get(), MPFR_RNDN);
  mpfr_set_emin(f.exponent_min - f.digits + 2);
  mpfr_set_emax(f.exponent_max + 1);
  ternary = mpfr_check_range(rounded, ternary, MPFR_RNDN);
  mpfr_subnormalize(rounded, ternary, MPFR_RNDN);
  const double result = mpfr_get_d(rounded, MPFR_RNDN);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  mpfr_clear(rounded);
  return result;
}

/// f(x) correctly rounded to a 16-bit format, decided as in correctly_rounded.
double correctly_rounded_to(const Format& format, const Unary& f, double x, Number& scratch) {
  const double estimate = f.estimate(x);
  const double low = round_to(format, estimate * (1 - 0x1p-46));
  const double high = round_to(format, estimate * (1 + 0x1p-46));
  if (low == high || std::isnan(estimate)) return low;
  evaluate(f, x, scratch);
  return round_by_mpfr(format, scratch);
}

TEST_P(Elementary, SixteenBitsAreCorrectlyRoundedOnEveryInput) {
  const Unary& f = GetParam();
  Number scratch;
  for (const Format& format : {bf16, fp16}) {
    long wrong = 0;
    for (std::uint64_t bits = 0; bits < 65'536; ++bits) {
      const double x = decode(format, bits);
      const double got = round_to(format, f.of_double(x));
      if (!same(got, correctly_rounded_to(format, f, x, scratch))) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << name_of(format);
  }
}

/// The same, every input by MPFR, for a sample: the estimate is trusted on no word but this.
TEST_P(Elementary, SixteenBitsAgreeWithMpfrOnASample) {
  const Unary& f = GetParam();
  Number scratch;
  for (const Format& format : {bf16, fp16}) {
    for (std::uint64_t bits = 0; bits < 65'536; bits += 61) {
      const double x = decode(format, bits);
      evaluate(f, x, scratch);
      EXPECT_TRUE(same(round_to(format, f.of_double(x)), round_by_mpfr(format, scratch)))
          << name_of(format) << " at " << x;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Elementary, testing::ValuesIn(unary_functions),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- special values

struct Special {
  const char* name;
  double x, expected;
};

const std::vector<Special> special_values{
    {"exp", 0.0, 1},     {"exp", -0.0, 1},      {"exp", inf, inf},     {"exp", -inf, 0},
    {"exp", 1e308, inf}, {"exp", -1e308, 0},    {"exp2", 0.0, 1},      {"exp2", -0.0, 1},
    {"exp2", inf, inf},  {"exp2", -inf, 0},     {"exp2", 10, 1024},    {"exp2", -149, 0x1p-149},
    {"expm1", 0.0, 0.0}, {"expm1", -0.0, -0.0}, {"expm1", inf, inf},   {"expm1", -inf, -1},
    {"log", 0.0, -inf},  {"log", -0.0, -inf},   {"log", inf, inf},     {"log", 1, 0.0},
    {"log", -1, nan},    {"log", -inf, nan},    {"log1p", 0.0, 0.0},   {"log1p", -0.0, -0.0},
    {"log1p", -1, -inf}, {"log1p", -2, nan},    {"log1p", inf, inf},   {"log1p", -inf, nan},
    {"tanh", 0.0, 0.0},  {"tanh", -0.0, -0.0},  {"tanh", inf, 1},      {"tanh", -inf, -1},
    {"erf", 0.0, 0.0},   {"erf", -0.0, -0.0},   {"erf", inf, 1},       {"erf", -inf, -1},
    {"erfc", 0.0, 1},    {"erfc", -0.0, 1},     {"erfc", inf, 0},      {"erfc", -inf, 2},
    {"sin", 0.0, 0.0},   {"sin", -0.0, -0.0},   {"sin", inf, nan},     {"sin", -inf, nan},
    {"cos", 0.0, 1},     {"cos", -0.0, 1},      {"cos", inf, nan},     {"cos", -inf, nan},
    {"rsqrt", 4, 0.5},   {"rsqrt", 0.0, inf},   {"rsqrt", -0.0, -inf}, {"rsqrt", inf, 0.0},
    {"rsqrt", -1, nan},  {"rsqrt", -inf, nan},
};

TEST(ElementarySpecial, ZerosInfinitiesAndNaN) {
  for (const Unary& f : unary_functions) {
    EXPECT_TRUE(std::isnan(f.of_double(nan))) << f.name;
    const auto check = [&](double x, double expected) {
      const auto narrow = static_cast<float>(x);
      float got = 0;
      f.of_floats(&narrow, &got, 1);
      EXPECT_TRUE(same(got, static_cast<float>(expected))) << "float " << f.name << "(" << x << ")";
      EXPECT_TRUE(same(f.of_double(x), expected)) << "double " << f.name << "(" << x << ")";
    };
    check(nan, nan);
    for (const Special& s : special_values)
      if (std::string(f.name) == s.name) check(s.x, s.expected);
  }
}

// ---- pow

/// x^y within the stated error of both formats for one pair; the errors in ulp.
std::pair<double, double> pow_errors(double x, double y) {
  Number base, exponent;
  mpfr_set_d(base.get(), x, MPFR_RNDN);
  mpfr_set_d(exponent.get(), y, MPFR_RNDN);
  mpfr_pow(base.get(), base.get(), exponent.get(), MPFR_RNDN);
  const double double_error = error_ulp(fp64, pow(x, y), base);
  const auto x32 = static_cast<float>(x), y32 = static_cast<float>(y);
  mpfr_set_d(base.get(), static_cast<double>(x32), MPFR_RNDN);
  mpfr_set_d(exponent.get(), static_cast<double>(y32), MPFR_RNDN);
  mpfr_pow(base.get(), base.get(), exponent.get(), MPFR_RNDN);
  return {double_error, error_ulp(fp32, static_cast<double>(pow(x32, y32)), base)};
}

TEST(ElementaryPow, StaysWithinItsStatedError) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> unit(-1, 1);
  double worst = 0, worst_of_float = 0;
  for (int i = 0; i < 50'000; ++i) {
    double x = std::exp2(unit(random) * (i % 2 == 0 ? 1000 : 1));
    if (i % 5 == 0) x = 1 + unit(random) * std::exp2(-static_cast<double>(random() % 52));
    if (i % 7 == 0) x = std::bit_cast<double>(random() >> 2);
    double y = unit(random) * 1080 / std::max(std::fabs(std::log2(x)), 0x1p-60);
    if (i % 3 == 0) y = std::nearbyint(y);
    const auto [error, error_of_float] = pow_errors(i % 3 == 0 && i % 2 == 0 ? -x : x, y);
    worst = std::max(worst, error);
    worst_of_float = std::max(worst_of_float, error_of_float);
  }
  RecordProperty("error_ulp", std::to_string(worst));
  std::printf("pow    %.4f ulp, stated %.2f; float %.6f ulp\n", worst,
              fp64_error_ulp(Function::pow), worst_of_float);
  EXPECT_LE(worst, fp64_error_ulp(Function::pow));
  EXPECT_LE(worst_of_float, 1);
}

TEST(ElementaryPow, SpecialValuesAreThoseOfIeee754) {
  const std::vector<double> values{0.0,   -0.0,      1,    -1,  2,   -2,   0.5,       -0.5,
                                   3,     -3,        1e10, inf, nan, -inf, 0x1p53,    -1e300,
                                   1e300, 0x1p-1074, -1e9, 1.5, 4,   0.1,  0x1p52 + 1};
  for (const double x : values) {
    for (const double y : values) {
      const double got = pow(x, y), expected = std::pow(x, y);
      EXPECT_LE(std::fabs(got - expected) > 0 ? std::fabs(got / expected - 1) : 0, 0x1p-52)
          << x << " ^ " << y;
      EXPECT_EQ(std::isnan(got), std::isnan(expected)) << x << " ^ " << y;
      EXPECT_EQ(std::signbit(got) && !std::isnan(got), std::signbit(expected) && !std::isnan(got));
      const double rounded = static_cast<float>(x), power = static_cast<float>(y);
      EXPECT_TRUE(same(pow(static_cast<float>(x), static_cast<float>(y)),
                       static_cast<float>(pow(rounded, power))));
    }
  }
}

TEST(ElementaryFma, RoundsOnce) {
  // (1 + u)(1 - u) - 1 = -u^2, which two roundings lose.
  EXPECT_EQ(fma(1 + 0x1p-30, 1 - 0x1p-30, -1.0), -0x1p-60);
  EXPECT_EQ(fma(1 + 0x1p-20F, 1 - 0x1p-20F, -1.0F), -0x1p-40F);
}

}  // namespace
}  // namespace opbound::oracle
