// The law of Enclosure: for points inside the operands the exact result is inside the result.
#include "reference/enclosure.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/binary_oracle.hpp"

namespace opbound {
namespace {

constexpr mpfr_prec_t enclosure_bits = 64;
constexpr mpfr_prec_t point_bits = 4 * enclosure_bits;
constexpr double infinity = std::numeric_limits<double>::infinity();

using Generator = std::mt19937_64;

Enclosure point(double x) { return from<Enclosure>(x); }
Enclosure interval(double low, double high) { return {from<Mpfr>(low), from<Mpfr>(high)}; }

double unit(Generator& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// A double of magnitude 2^-20 ... 2^20, a small integer, a zero, or rarely an infinity.
double any_end(Generator& random) {
  const double sign = random() % 2 == 0 ? 1 : -1;
  switch (random() % 16) {
    case 0:
      return sign * 0.0;
    case 1:
      return random() % 4 == 0 ? sign * infinity : 0x1p-300 * sign;
    case 2:
    case 3:
      return sign * static_cast<double>(random() % 5);
    default:
      return sign * std::ldexp(1 + unit(random), static_cast<int>(random() % 41) - 20);
  }
}

/// An interval: a point, one of two free ends, or one around an end, down to one ulp wide.
Enclosure any_interval(Generator& random) {
  const double first = any_end(random);
  if (random() % 5 == 0) return point(first);
  const double width = std::ldexp(1 + unit(random), -static_cast<int>(random() % 64));
  const double second = random() % 2 == 0 ? any_end(random) : first + width * std::fabs(first);
  Enclosure result = interval(std::min(first, second), std::max(first, second));
  if (random() % 4 != 0 || std::isinf(first) || first == 0) return result;
  Mpfr above = from<Mpfr>(first);
  mpfr_nextabove(above.get());
  return {from<Mpfr>(first), above};
}

/// A number inside x, with more bits than x's ends: an end, a zero, or any.
Mpfr inside(Generator& random, const Enclosure& x) {
  const PrecisionScope scope(point_bits);
  if (x.is_point() || random() % 4 == 0) return random() % 2 == 0 ? x.low() : x.high();
  if (random() % 4 == 0 && x.contains_zero()) return {};
  const Mpfr share = from<Mpfr>(unit(random));
  const Mpfr low = mpfr_inf_p(x.low().get()) != 0 ? min(from<Mpfr>(-0x1p30), x.high()) : x.low();
  const Mpfr high = mpfr_inf_p(x.high().get()) != 0 ? max(from<Mpfr>(0x1p30), x.low()) : x.high();
  const Mpfr result = low + share * (high - low);
  return x.contains(result) ? result : x.low();
}

/// exact, rounded to nearest with more bits than the ends: monotone, so no allowance is needed.
void expect_inside(const char* name, const Enclosure& got, const Mpfr& exact) {
  if (is_nan(exact)) {
    EXPECT_TRUE(got.is_nan() || got.is_whole_line()) << name;
    return;
  }
  EXPECT_TRUE(got.contains(exact)) << name << " [" << to_double(got.low()) << ", "
                                   << to_double(got.high()) << "] " << to_double(exact);
}

// ---- the law
// ---------------------------------------------------------------------------------------------

struct Binary {
  const char* name;
  Enclosure (*of_enclosures)(const Enclosure&, const Enclosure&);
  Mpfr (*of_points)(const Mpfr&, const Mpfr&);
};

#define OPBOUND_BINARY(name, expression)                                     \
  Binary {                                                                   \
    name, [](const Enclosure& x, const Enclosure& y) { return expression; }, \
        [](const Mpfr& x, const Mpfr& y) { return expression; }              \
  }
const std::array<Binary, 7> binary_operations{
    OPBOUND_BINARY("+", x + y),          OPBOUND_BINARY("-", x - y),
    OPBOUND_BINARY("*", x* y),           OPBOUND_BINARY("/", x / y),
    OPBOUND_BINARY("max", max(x, y)),    OPBOUND_BINARY("min", min(x, y)),
    OPBOUND_BINARY("fma", fma(x, y, x)),
};
#undef OPBOUND_BINARY

void check_operations(int count) {
  const PrecisionScope scope(enclosure_bits);
  Generator random(11);
  for (const Binary& operation : binary_operations) {
    for (int i = 0; i < count; ++i) {
      const Enclosure x = any_interval(random);
      const Enclosure y = any_interval(random);
      const Enclosure got = operation.of_enclosures(x, y);
      for (int k = 0; k < 4; ++k) {
        const Mpfr a = inside(random, x);
        const Mpfr b = inside(random, y);
        const PrecisionScope fine(point_bits);
        expect_inside(operation.name, got, operation.of_points(a, b));
      }
    }
  }
}

struct Unary {
  const char* name;
  Enclosure (*of_enclosure)(const Enclosure&);
  Mpfr (*of_point)(const Mpfr&);
};

#define OPBOUND_UNARY(f)                                                            \
  Unary {                                                                           \
#f, [](const Enclosure& x) { return f(x); }, [](const Mpfr& x) { return f(x); } \
  }
template <class T>
T square(const T& x) {
  return x * x;
}

const std::array<Unary, 15> functions{
    OPBOUND_UNARY(exp),    OPBOUND_UNARY(exp2), OPBOUND_UNARY(expm1), OPBOUND_UNARY(log),
    OPBOUND_UNARY(log1p),  OPBOUND_UNARY(tanh), OPBOUND_UNARY(erf),   OPBOUND_UNARY(erfc),
    OPBOUND_UNARY(sin),    OPBOUND_UNARY(cos),  OPBOUND_UNARY(sqrt),  OPBOUND_UNARY(rsqrt),
    OPBOUND_UNARY(square), OPBOUND_UNARY(abs),  OPBOUND_UNARY(-),
};
#undef OPBOUND_UNARY

void check_functions(int count) {
  const PrecisionScope scope(enclosure_bits);
  Generator random(12);
  for (const Unary& function : functions) {
    for (int i = 0; i < count; ++i) {
      const Enclosure x = any_interval(random);
      const Enclosure got = function.of_enclosure(x);
      for (int k = 0; k < 2; ++k) {
        const Mpfr a = inside(random, x);
        const PrecisionScope fine(point_bits);
        expect_inside(function.name, got, function.of_point(a));
      }
    }
  }
}

TEST(Enclosure, OperationsContainTheExactResult) { check_operations(4'000); }
TEST(FullEnclosure, OperationsContainTheExactResult) { check_operations(100'000); }
TEST(Enclosure, FunctionsContainTheExactResult) { check_functions(1'000); }
TEST(FullEnclosure, FunctionsContainTheExactResult) { check_functions(100'000); }

/// cpp_bin_float has 72 bits more than the enclosure, which it misses with a probability of 2^-60.
void check_against_binary_oracle(int count) {
  const PrecisionScope scope(128);
  for (const oracle::Unary& f : oracle::unary_functions()) {
    Generator random(13);
    for (int i = 0; i < count; ++i) {
      const double x = f.input(random);
      const Enclosure at_point = f.of_enclosure(point(x));
      const Enclosure around = f.of_enclosure(interval(x, x + std::fabs(x) * 0x1p-50));
      const Mpfr exact = oracle::exact_value(f.of_binary(x));
      EXPECT_TRUE(at_point.contains(exact)) << f.name << std::hexfloat << " " << x;
      EXPECT_TRUE(around.contains(exact)) << f.name << std::hexfloat << " " << x;
    }
  }
}

TEST(Enclosure, ContainsTheBinaryOracle) { check_against_binary_oracle(200); }
TEST(FullEnclosure, ContainsTheBinaryOracle) { check_against_binary_oracle(100'000); }

// ---- points, infinities, NaN
// -----------------------------------------------------------------------------

/// The point `exact`, with its zero's sign, or NaN.
void expect_point(const char* name, const Enclosure& got, double exact) {
  if (std::isnan(exact)) {
    EXPECT_TRUE(got.is_nan()) << name;
    return;
  }
  EXPECT_TRUE(got.is_point()) << name;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(to_double(got.high())),
            std::bit_cast<std::uint64_t>(exact))
      << name << ": " << to_double(got.high()) << " for " << exact;
}

TEST(Enclosure, PointsFollowIeee754) {
  const PrecisionScope scope(enclosure_bits);
  const std::vector<double> specials{0.0,  -0.0,     1.0,       -1.0,        2.0,
                                     -0.5, infinity, -infinity, std::nan("")};
  for (const double x : specials) {
    const Enclosure a = point(x);
    expect_point("-", -a, -x);
    expect_point("abs", abs(a), std::fabs(x));
    EXPECT_EQ(is_negative(a), x < 0);
    for (const double y : specials) {
      const Enclosure b = point(y);
      expect_point("+", a + b, x + y);
      expect_point("-", a - b, x - y);
      expect_point("*", a * b, x * y);
      expect_point("max", max(a, b), max(x, y));
      expect_point("min", min(a, b), min(x, y));
      expect_point("/", a / b, x / y);
      for (const double z : specials) expect_point("fma", fma(a, b, point(z)), std::fma(x, y, z));
    }
  }
  for (const double x : {0.0, -0.0, infinity, -infinity, std::nan("")}) {
    expect_point("exp", exp(point(x)), std::exp(x));
    expect_point("log", log(point(x)), std::log(x));
    expect_point("log1p", log1p(point(x)), std::log1p(x));
    expect_point("tanh", tanh(point(x)), std::tanh(x));
    expect_point("erf", erf(point(x)), std::erf(x));
    expect_point("erfc", erfc(point(x)), std::erfc(x));
    expect_point("sin", sin(point(x)), std::sin(x));
    expect_point("cos", cos(point(x)), std::cos(x));
    expect_point("sqrt", sqrt(point(x)), std::sqrt(x));
    expect_point("rsqrt", rsqrt(point(x)), 1 / std::sqrt(x));
  }
}

TEST(Enclosure, InexactPointsAreOneUlpWide) {
  const PrecisionScope scope(enclosure_bits);
  const Enclosure third = point(1) / point(3);
  for (const Enclosure& x : {third, -third, exp(third), log(point(3)), sin(point(1)),
                             pi<Enclosure>(), point(-1) - point(0x1p-200), exp(exp(point(-1e9)))}) {
    Mpfr next = x.low();
    mpfr_nextabove(next.get());
    EXPECT_LE(to_double(x.low()), to_double(x.high()));
    EXPECT_TRUE(x.is_point() || mpfr_greaterequal_p(next.get(), x.high().get()) != 0);
  }
  EXPECT_FALSE(third.is_point());
}

TEST(Enclosure, WhatMayBeNanIsTheWholeLineFromThenOn) {
  const PrecisionScope scope(enclosure_bits);
  const Enclosure around_zero = interval(-0x1p-70, 1);
  const Enclosure whole = Enclosure::whole_line();
  EXPECT_TRUE((point(1) / around_zero).is_whole_line());
  EXPECT_TRUE((point(1) / interval(0, 1)).is_whole_line());
  EXPECT_TRUE((around_zero / point(0)).is_whole_line());
  EXPECT_TRUE(sqrt(around_zero).is_whole_line());
  EXPECT_TRUE(log(around_zero).is_whole_line());
  EXPECT_TRUE(rsqrt(around_zero).is_whole_line());
  EXPECT_TRUE(rsqrt(interval(0, 1)).is_whole_line());
  EXPECT_TRUE(log1p(interval(-2, 0)).is_whole_line());
  EXPECT_TRUE((point(infinity) * around_zero).is_whole_line());
  EXPECT_TRUE((interval(1, infinity) - point(infinity)).is_whole_line());
  EXPECT_TRUE((interval(1, infinity) / interval(1, infinity)).is_whole_line());
  EXPECT_TRUE(sqrt(interval(-2, -1)).is_nan());
  EXPECT_TRUE(rsqrt(interval(-2, -1)).is_nan());
  EXPECT_TRUE(log(interval(-2, -1)).is_nan());
  EXPECT_TRUE(log1p(interval(-3, -2)).is_nan());
  for (const Unary& f : functions) EXPECT_TRUE(f.of_enclosure(whole).is_whole_line()) << f.name;
  for (const Binary& f : binary_operations) {
    for (const Enclosure& x : {point(0), point(1), interval(1, 2), around_zero, point(infinity)}) {
      EXPECT_TRUE(f.of_enclosures(whole, x).is_whole_line()) << f.name;
      EXPECT_TRUE(f.of_enclosures(x, whole).is_whole_line()) << f.name;
    }
  }
}

TEST(Enclosure, ASquareIsNotNegative) {
  const PrecisionScope scope(enclosure_bits);
  const Enclosure zero = exp(point(1)) - exp(point(1));
  EXPECT_TRUE(is_negative(zero.low()));
  EXPECT_FALSE(is_negative((zero * zero).low()));
}

/// exp(-1e30) is below every MPFR number and yet no 0.
TEST(Enclosure, KnowsThatExpIsNotZero) {
  const PrecisionScope scope(enclosure_bits);
  const Enclosure tiny = exp(point(-1e30)), infinite = point(infinity);
  EXPECT_TRUE(tiny.contains_zero());
  for (const Enclosure& x : {tiny, exp2(point(-1e30)), erfc(point(1e30)), tiny * tiny,
                             tiny / point(3), tiny * exp(point(1)), abs(-tiny)}) {
    expect_point("*", x * infinite, infinity);
    expect_point("*", infinite * -x, -infinity);
  }
  EXPECT_TRUE((exp(interval(-infinity, 1)) * infinite).is_whole_line());
  EXPECT_TRUE((exp(point(-infinity)) * infinite).is_nan());
  EXPECT_TRUE((tiny * interval(1, infinity)).is_whole_line());
  EXPECT_TRUE((infinite * (tiny * interval(1, infinity))).is_whole_line());
  EXPECT_TRUE((infinite * (tiny * interval(-1, 1))).is_whole_line());
  EXPECT_TRUE((infinite * (tiny - tiny)).is_whole_line());
}

TEST(Enclosure, AChoiceThatIsNotCertainIsBoth) {
  const PrecisionScope scope(64);
  const auto number = [](double x) { return from<Enclosure>(x); };
  const Enclosure a = number(3), b = number(5);
  const Enclosure across(from<Mpfr>(-1.0), from<Mpfr>(1.0));
  EXPECT_EQ(to_double(where_negative(number(-1), a, b)), 3);
  EXPECT_EQ(to_double(where_negative(number(0), a, b)), 5);
  EXPECT_TRUE(where_negative(number(0), a, b).is_point());
  const Enclosure both = where_negative(across, a, b);
  EXPECT_TRUE(both.contains(from<Mpfr>(3.0)) && both.contains(from<Mpfr>(5.0)));
  EXPECT_TRUE(where_negative(across, a, Enclosure::nan()).is_whole_line());
}

TEST(EnclosureDeathTest, NoBranchHangsOnAnInterval) {
  const PrecisionScope scope(enclosure_bits);
  const Enclosure x = interval(1, 2);
  EXPECT_DEATH(is_negative(x), "is_point");
}

TEST(Enclosure, ConstantsAreEnclosed) {
  const PrecisionScope scope(128);
  const auto fine_ln2 = [] {
    const PrecisionScope fine(400);
    return log(from<Mpfr>(2.0));
  }();
  EXPECT_TRUE(constant<Enclosure>(ln2).contains(fine_ln2));
  EXPECT_TRUE((-constant<Enclosure>(ln2)).contains(-fine_ln2));
  const auto fine_pi = [] {
    const PrecisionScope fine(400);
    return pi<Mpfr>();
  }();
  EXPECT_TRUE(pi<Enclosure>().contains(fine_pi));
}

// ---- exact_of
// --------------------------------------------------------------------------------------------

/// Both ends lie within high + low +- radius, and high is the rounded middle.
void expect_covers(const Exact& got, const Enclosure& x) {
  const PrecisionScope scope(2400);
  const Mpfr center = from<Mpfr>(got.high) + from<Mpfr>(got.low);
  const Mpfr radius = from<Mpfr>(got.radius);
  EXPECT_EQ(got.kind, Exact::Class::finite);
  EXPECT_EQ(got.high + got.low, got.high);
  EXPECT_FALSE(is_negative(x.low() - (center - radius)));
  EXPECT_FALSE(is_negative((center + radius) - x.high()));
}

TEST(Enclosure, ExactOfCoversTheEnclosure) {
  const PrecisionScope scope(128);
  Generator random(14);
  for (int i = 0; i < 20'000; ++i) {
    const double scale = std::ldexp(1.0, static_cast<int>(random() % 2000) - 1050);
    const Enclosure x = any_interval(random) * point(scale) / point(3);
    if (x.is_nan() || x.has_infinite_end()) continue;
    const Exact got = exact_of(x);
    if (got.kind == Exact::Class::beyond_double) continue;
    expect_covers(got, x);
  }
}

TEST(Enclosure, ExactOfPointsIsExact) {
  const PrecisionScope scope(1200);
  const auto expect = [](const Enclosure& x, double high, double low, double radius) {
    const Exact got = exact_of(x);
    EXPECT_EQ(got.high, high);
    EXPECT_EQ(got.low, low);
    EXPECT_EQ(got.radius, radius);
    EXPECT_EQ(got.kind, Exact::Class::finite);
  };
  expect(point(0.1), 0.1, 0, 0);
  expect(point(1) + point(1e-300), 1, 1e-300, 0);
  expect(point(0x1p-1074) / point(8), 0, 0, 0x1p-1074);
  expect(point(1) + point(0x1p-60) + point(0x1p-120), 1, 0x1p-60, 0x1p-120);
  const double largest = std::numeric_limits<double>::max();
  expect(point(largest) + point(1), largest, 1, 0);
  expect(Enclosure::whole_line(), 0, 0, infinity);
  expect(interval(1, infinity), 0, 0, infinity);
}

TEST(Enclosure, ExactOfNamesTheOtherClasses) {
  const PrecisionScope scope(128);
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(exact_of(Enclosure::nan()).kind, Exact::Class::nan);
  EXPECT_EQ(exact_of(point(infinity)).kind, Exact::Class::plus_infinity);
  EXPECT_EQ(exact_of(point(-infinity)).kind, Exact::Class::minus_infinity);
  const Exact above = exact_of(exp(point(1000)));
  EXPECT_EQ(above.kind, Exact::Class::beyond_double);
  EXPECT_EQ(above.high, largest);
  const Exact below = exact_of(-exp(point(1000)));
  EXPECT_EQ(below.kind, Exact::Class::beyond_double);
  EXPECT_EQ(below.high, -largest);
  const Exact across = exact_of(Enclosure(from<Mpfr>(1), exp(from<Mpfr>(1000))));
  EXPECT_EQ(across.kind, Exact::Class::finite);
  EXPECT_EQ(across.radius, infinity);
}

}  // namespace
}  // namespace opbound
