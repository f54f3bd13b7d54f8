// ops/elementary.hpp against MPFR: the stated errors of the double functions, correct rounding of
// the float functions on a stride, of the 16-bit formats on every input, and special values.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/number.hpp"
#include "tests/elementary_inputs.hpp"

namespace opbound::oracle {
namespace {

constexpr double inf = infinity;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// ---- double

class Elementary : public testing::TestWithParam<Unary> {};

TEST_P(Elementary, DoubleStaysWithinItsStatedError) {
  const Unary& f = GetParam();
  const Worst worst = worst_error(f, 100'000, 1);
  RecordProperty("error_ulp", std::to_string(worst.error_ulp));
  std::printf("%-6s %.4f ulp at %a, stated %.2f\n", f.name, worst.error_ulp, worst.input,
              fp64_error_ulp(f.function));
  EXPECT_LE(worst.error_ulp, fp64_error_ulp(f.function)) << "at " << worst.input;
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
