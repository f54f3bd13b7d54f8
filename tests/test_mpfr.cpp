// Mpfr: IEEE special values, the precision scope, and Boost.Multiprecision's cpp_bin_float as an
// oracle that shares no code with MPFR.
#include "reference/mpfr.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "tests/binary_oracle.hpp"

namespace opbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::vector<double> specials{0.0,   -0.0,     1.0,       -1.0,        2.5,
                                   -0.75, infinity, -infinity, std::nan("")};

/// The same value with the same sign, or both NaN.
void expect_same(const char* name, const Mpfr& got, double exact) {
  const double value = to_double(got);
  if (std::isnan(exact)) {
    EXPECT_TRUE(is_nan(got)) << name;
    return;
  }
  EXPECT_EQ(std::bit_cast<std::uint64_t>(value), std::bit_cast<std::uint64_t>(exact))
      << name << ": " << value << " for " << exact;
}

TEST(Mpfr, OperationsOnSpecialValuesAreThoseOfDoubles) {
  const PrecisionScope scope(53);
  for (const double x : specials) {
    const Mpfr a = from<Mpfr>(x);
    expect_same("-", -a, -x);
    expect_same("abs", abs(a), std::fabs(x));
    expect_same("sqrt", sqrt(a), std::sqrt(x));
    EXPECT_EQ(is_negative(a), x < 0);
    for (const double y : specials) {
      const Mpfr b = from<Mpfr>(y);
      expect_same("+", a + b, x + y);
      expect_same("-", a - b, x - y);
      expect_same("*", a * b, x * y);
      expect_same("/", a / b, x / y);
      expect_same("max", max(a, b), max(x, y));
      expect_same("min", min(a, b), min(x, y));
      for (const double z : specials)
        expect_same("fma", fma(a, b, from<Mpfr>(z)), std::fma(x, y, z));
    }
  }
}

TEST(Mpfr, FunctionsOfSpecialValuesAreThoseOfIeee754) {
  const PrecisionScope scope(53);
  for (const double x : {0.0, -0.0, infinity, -infinity, std::nan("")}) {
    const Mpfr a = from<Mpfr>(x);
    expect_same("exp", exp(a), std::exp(x));
    expect_same("exp2", exp2(a), std::exp2(x));
    expect_same("expm1", expm1(a), std::expm1(x));
    expect_same("log", log(a), std::log(x));
    expect_same("log1p", log1p(a), std::log1p(x));
    expect_same("tanh", tanh(a), std::tanh(x));
    expect_same("erf", erf(a), std::erf(x));
    expect_same("erfc", erfc(a), std::erfc(x));
    expect_same("sin", sin(a), std::sin(x));
    expect_same("cos", cos(a), std::cos(x));
    expect_same("rsqrt", rsqrt(a), 1 / std::sqrt(x));
  }
  expect_same("log", log(from<Mpfr>(-1.0)), std::nan(""));
  expect_same("log1p", log1p(from<Mpfr>(-1.0)), -infinity);
  expect_same("rsqrt", rsqrt(from<Mpfr>(-1.0)), std::nan(""));
}

TEST(Mpfr, At53BitsItIsDoubleArithmetic) {
  const PrecisionScope scope(53);
  std::mt19937_64 random(1);
  const auto number = [&] {
    const double significand = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    return std::ldexp(significand, static_cast<int>(random() % 80) - 40);
  };
  for (int i = 0; i < 20'000; ++i) {
    const double x = number();
    const double y = number();
    const double z = number();
    const Mpfr a = from<Mpfr>(x);
    const Mpfr b = from<Mpfr>(y);
    expect_same("+", a + b, x + y);
    expect_same("-", a - b, x - y);
    expect_same("*", a * b, x * y);
    expect_same("/", a / b, x / y);
    expect_same("fma", fma(a, b, from<Mpfr>(z)), std::fma(x, y, z));
    expect_same("sqrt", sqrt(abs(a)), std::sqrt(std::fabs(x)));
  }
}

TEST(Mpfr, ScopesNestAndRestore) {
  const mpfr_exp_t exponent_max = mpfr_get_emax();
  EXPECT_EQ(working_precision_bits, 0);
  {
    const PrecisionScope outer(100);
    EXPECT_EQ(mpfr_get_prec(Mpfr().get()), 100);
    {
      const PrecisionScope inner(300);
      EXPECT_EQ(mpfr_get_prec(from<Mpfr>(1.0).get()), 300);
    }
    EXPECT_EQ(mpfr_get_prec((from<Mpfr>(1.0) + Mpfr()).get()), 100);
    std::thread([] { EXPECT_EQ(working_precision_bits, 0); }).join();
  }
  EXPECT_EQ(working_precision_bits, 0);
  EXPECT_EQ(mpfr_get_emax(), exponent_max);
}

TEST(MpfrDeathTest, NoNumberWithoutAScope) { EXPECT_DEATH(Mpfr(), "PrecisionScope"); }

TEST(Mpfr, ExponentsHaveNoPracticalLimit) {
  const PrecisionScope scope(100);
  const Mpfr large = exp(from<Mpfr>(1e12));
  EXPECT_EQ(to_double(log(large)), 1e12);
  EXPECT_EQ(to_double(large * exp(from<Mpfr>(-1e12))), 1.0);
  EXPECT_EQ(to_double(large), infinity);
}

TEST(Mpfr, CopiesKeepThePrecisionAndMovesTakeTheNumber) {
  const PrecisionScope scope(200);
  const Mpfr third = from<Mpfr>(1.0) / from<Mpfr>(3.0);
  std::vector<Mpfr> numbers(3);
  EXPECT_EQ(to_double(numbers[0]), 0);
  {
    const PrecisionScope narrow(20);
    numbers[0] = third;
    const std::vector<Mpfr> copies{third};
    EXPECT_EQ(mpfr_equal_p(copies[0].get(), third.get()), 1);
  }
  EXPECT_EQ(mpfr_equal_p(numbers[0].get(), third.get()), 1);
  numbers[1] = std::move(numbers[0]);
  EXPECT_EQ(mpfr_equal_p(numbers[1].get(), third.get()), 1);
  numbers[0] = third;
  Mpfr taken = std::move(numbers[1]);
  numbers[1] = Mpfr(taken);
  numbers.push_back(taken);
  for (const std::size_t i : {0U, 1U, 3U})
    EXPECT_EQ(mpfr_equal_p(numbers[i].get(), third.get()), 1);
}

TEST(Mpfr, ARealConstantIsItsTwoParts) {
  const PrecisionScope scope(300);
  const Mpfr got = constant<Mpfr>(ln2);
  EXPECT_EQ(to_double(got), ln2.high);
  EXPECT_EQ(to_double(got - from<Mpfr>(ln2.high)), ln2.low);
}

/// cpp_bin_float, with 72 bits to spare, rounds to the same 128 bits: it fails to with a
/// probability of about 2^-60 each time.
void check_against_binary_oracle(int count) {
  const PrecisionScope scope(128);
  for (const oracle::Unary& f : oracle::unary_functions()) {
    std::mt19937_64 random(2);
    for (int i = 0; i < count; ++i) {
      const double x = f.input(random);
      const Mpfr got = f.of_mpfr(from<Mpfr>(x));
      EXPECT_NE(mpfr_equal_p(got.get(), oracle::rounded(f.of_binary(x)).get()), 0)
          << f.name << std::hexfloat << " " << x;
    }
  }
}

TEST(Mpfr, AgreesWithBinaryOracle) { check_against_binary_oracle(300); }
TEST(FullMpfr, AgreesWithBinaryOracle) { check_against_binary_oracle(100'000); }

}  // namespace
}  // namespace opbound
