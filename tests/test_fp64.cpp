// Fp64's functions against double-double, whose errors are 2^-50 of theirs, and what a certified
// fp64 value says of special values.
#include "reference/fp64.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "bounds/tracked_double_double.hpp"
#include "reference/mpfr.hpp"

namespace opbound {
namespace {

/// Sign and magnitude at random, by octaves from 2^-60 to `most`; the edges of both tables'
/// intervals with their neighbours.
std::vector<double> arguments(double most, int count) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> octave(-60, std::log2(most)), linear(-most, most);
  std::vector<double> x{0.0, -0.0, 0x1p-1074, -0x1p-1022, most, -most};
  for (int i = 0; i < count; ++i) {
    x.push_back(std::exp2(octave(random)) * (random() % 2 == 0 ? 1 : -1));
    x.push_back(linear(random));
  }
  for (int i = 0; i < 8 * 26; ++i)
    for (const double edge : {i / 8.0, i / 8.0 + 0.0625, i * std::log(2.0) / 64})
      for (const double at : {edge, std::nextafter(edge, 0), std::nextafter(edge, 100)})
        for (const double signed_one : {at, -at})
          if (std::fabs(signed_one) <= most) x.push_back(signed_one);
  return x;
}

template <class F, class G>
double largest_use(Function f, const std::vector<double>& arguments, F fp64_function,
                   G exact_function) {
  double largest = 0;
  for (const double x : arguments) {
    const DoubleDouble exact = exact_function(DoubleDouble{x, 0});
    const double got = fp64_function(Fp64{x}).value;
    const double error = std::fabs((DoubleDouble{got, 0} - exact).high);
    const LocalError bound = Facts<Fp64>::function(f);
    const double allowed = bound.relative * std::fabs(got) + bound.absolute;
    EXPECT_LE(error, allowed) << x;
    largest = std::max(largest, error / allowed);
  }
  return largest;
}

TEST(Fp64, ExpKeepsItsBound) {
  const double use = largest_use(
      Function::exp, arguments(660, 200000), [](Fp64 x) { return exp(x); },
      [](DoubleDouble x) { return exp(x); });
  EXPECT_GT(use, 0.3);  // 2.5 u counts every rounding at its worst
  RecordProperty("largest_ratio", std::to_string(use));
}

TEST(Fp64, ErfcKeepsItsBound) {
  const double use = largest_use(
      Function::erfc, arguments(25, 200000), [](Fp64 x) { return erfc(x); },
      [](DoubleDouble x) { return erfc(x); });
  EXPECT_GT(use, 0.2);
  RecordProperty("largest_ratio", std::to_string(use));
}

TEST(Fp64, ErfcxLeavesOutLittle) {
  double largest = 0;
  for (const double x : arguments(25.9, 20000)) {
    if (x < 0) continue;
    const DoubleDouble exact = double_double::scaled_erfc(DoubleDouble{x, 0});
    largest =
        std::max(largest, std::fabs((DoubleDouble{erfcx_fp64(x), 0} - exact).high) / exact.high);
  }
  EXPECT_LE(largest, Fp64Facts::erfcx * 0x1p-53);
}

/// Where double-double gives 0 or nothing, MPFR is the oracle: both ends of both functions.
template <class F, class G>
void attack_end(Function f, double low, double high, F fp64_function, G exact_function) {
  const PrecisionScope scope(200);
  const LocalError bound = Facts<Fp64>::function(f);
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> anywhere(low, high);
  for (int i = 0; i < 2000; ++i) {
    const double x = i == 0 ? low : i == 1 ? high : anywhere(random);
    const double got = fp64_function(Fp64{x}).value;
    const double error = std::fabs(to_double(exact_function(from<Mpfr>(x)) - from<Mpfr>(got)));
    ASSERT_LE(error, bound.relative * std::fabs(got) + bound.absolute) << x;
  }
}

TEST(Fp64, EndsKeepTheirBounds) {
  const auto fast_exp = [](Fp64 x) { return exp(x); };
  const auto true_exp = [](const Mpfr& x) { return exp(x); };
  attack_end(Function::exp, 600, std::nextafter(709.5, 0), fast_exp, true_exp);
  attack_end(Function::exp, -760, -600, fast_exp, true_exp);
  const auto fast_erfc = [](Fp64 x) { return erfc(x); };
  const auto true_erfc = [](const Mpfr& x) { return erfc(x); };
  attack_end(Function::erfc, 24, 30, fast_erfc, true_erfc);
  attack_end(Function::erfc, -30, -5, fast_erfc, true_erfc);
}

TEST(Fp64, SpecialValues) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const auto certified = [](double x) { return CertifiedFp64(Fp64{x}); };
  const auto kind = [](const CertifiedFp64& x) { return exact_of(x).kind; };
  EXPECT_EQ(kind(certified(infinite)), Exact::Class::plus_infinity);
  EXPECT_EQ(kind(certified(1) / certified(-0.0)), Exact::Class::minus_infinity);
  EXPECT_EQ(kind(certified(std::nan("")) * certified(2)), Exact::Class::nan);
  EXPECT_EQ(kind(exp(certified(infinite))), Exact::Class::plus_infinity);
  EXPECT_EQ(exact_of(exp(certified(-infinite))).high, 0);
  EXPECT_EQ(exact_of(erfc(certified(infinite))).high, 0);
  EXPECT_EQ(exact_of(erfc(certified(-infinite))).high, 2);
  // overflow: a number, but which one is not known here
  EXPECT_EQ(exact_of(exp(certified(800))).radius, infinite);
  EXPECT_EQ(exact_of(certified(1e300) * certified(1e300)).radius, infinite);
  // exact operations have no radius
  EXPECT_EQ(exact_of(certified(0x1p-30) * certified(3) + certified(1)).radius, 0);
}

TEST(Fp64, PiIsEnclosed) {
  const Exact pi_value = exact_of(pi<CertifiedFp64>());
  const double missing = std::fabs((pi<DoubleDouble>() - DoubleDouble{pi_value.high, 0}).high);
  EXPECT_LE(missing, pi_value.radius);
  EXPECT_GT(missing, pi_value.radius / 2);
}

}  // namespace
}  // namespace opbound
