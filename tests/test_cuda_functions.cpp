// What judges CUDA's functions, on the host: correctly rounded results pass as such, results one
// ulp farther away than is documented do not.
#include "reference/cuda_functions.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/cuda_functions/judged.hpp"
#include "reference/mpfr.hpp"

namespace opbound {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <Formula f>
Verdict verdict(float x, float got, const DocumentedError& documented) {
  const Judge judge{{fp32, false}, false, fp64_doubt_ulp};
  const auto bits = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(x));
  return judge.of(cuda_function::element_of<f>(bits, got, fp32, documented), false).verdict;
}

float moved(float x, int steps) {
  for (int i = 0; i < steps; ++i) x = std::nextafter(x, infinity);
  return x;
}

/// `rounded`: the function, correctly rounded.
template <Formula f, class Rounded>
void expect_distances_are_told(Rounded rounded) {
  int told = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 2654435) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float y = rounded(x);
    ASSERT_EQ(verdict<f>(x, y, {0}), Verdict::within) << x << " " << y;
    for (const int k : {1, 2, 4}) {
      const double documented = k;
      const float near = moved(y, k), far = moved(y, k + 1);
      if (!std::isfinite(far) || !std::isnormal(y) || std::ilogb(far) != std::ilogb(y)) continue;
      ASSERT_EQ(verdict<f>(x, near, {documented}), Verdict::within) << x;
      // k + 1 from the rounded value is at least k + 1/2 from the exact one, more but in a tie
      ASSERT_EQ(verdict<f>(x, moved(far, 1), {documented}), Verdict::exceeds) << x;
      ++told;
    }
  }
  EXPECT_GT(told, 50);
}

/// exact(x) of an Mpfr, rounded once.
template <class Exactly>
auto by_mpfr(Exactly exact) {
  return [exact](float x) {
    const PrecisionScope scope(300);
    return mpfr_get_flt(exact(from<Mpfr>(x)).get(), MPFR_RNDN);
  };
}

/// Far out exp is 0, whatever is documented of numbers.
TEST(CudaFunctions, WhatHasVanishedIs0) {
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float x : {-120.0F, -150.0F, -1e30F}) {
    EXPECT_EQ(verdict<Formula::exp>(x, 0, {2}), Verdict::within) << x;
    EXPECT_EQ(verdict<Formula::exp>(x, least, {2}), Verdict::exceeds) << x;
    EXPECT_EQ(verdict<Formula::erfc>(-x, 0, {4}), Verdict::within) << x;
    EXPECT_EQ(verdict<Formula::erfc>(-x, least, {4}), Verdict::exceeds) << x;
  }
  EXPECT_EQ(verdict<Formula::exp>(-103.5F, least, {2}), Verdict::within);  // 0.8 of it
  EXPECT_EQ(verdict<Formula::exp>(-104.5F, least, {2}), Verdict::within);  // 0.3 of it
  EXPECT_EQ(verdict<Formula::exp>(-106, least, {2}), Verdict::exceeds);    // 0.07
}

TEST(CudaFunctions, DistancesAreTold) {
  expect_distances_are_told<Formula::exp>([](float x) { return opbound::exp(x); });
  expect_distances_are_told<Formula::exp2>([](float x) { return opbound::exp2(x); });
  expect_distances_are_told<Formula::expm1>([](float x) { return opbound::expm1(x); });
  expect_distances_are_told<Formula::log>([](float x) { return opbound::log(x); });
  expect_distances_are_told<Formula::log1p>([](float x) { return opbound::log1p(x); });
  expect_distances_are_told<Formula::tanh>([](float x) { return opbound::tanh(x); });
  expect_distances_are_told<Formula::erf>([](float x) { return opbound::erf(x); });
  expect_distances_are_told<Formula::erfc>([](float x) { return opbound::erfc(x); });
  expect_distances_are_told<Formula::rsqrt>([](float x) { return opbound::rsqrt(x); });
  expect_distances_are_told<Formula::sin>([](float x) { return opbound::sin(x); });
  expect_distances_are_told<Formula::cos>([](float x) { return opbound::cos(x); });
  expect_distances_are_told<Formula::sqrt>([](float x) { return std::sqrt(x); });
  expect_distances_are_told<Formula::reciprocal>([](float x) { return 1 / x; });
  expect_distances_are_told<Formula::exp10>(
      by_mpfr([](const Mpfr& x) { return Mpfr::apply(mpfr_exp10, x); }));
  expect_distances_are_told<Formula::log2>(
      by_mpfr([](const Mpfr& x) { return Mpfr::apply(mpfr_log2, x); }));
  expect_distances_are_told<Formula::log10>(
      by_mpfr([](const Mpfr& x) { return Mpfr::apply(mpfr_log10, x); }));
}

template <Formula f>
void expect_special(float x, float right) {
  EXPECT_EQ(verdict<f>(x, right, {4}), Verdict::within) << static_cast<int>(f) << " " << x;
  const float wrong = right == 0.5F ? 0.25F : 0.5F;
  EXPECT_EQ(verdict<f>(x, wrong, {4}), Verdict::exceeds) << static_cast<int>(f) << " " << x;
  const Verdict of_nan = std::isnan(right) ? Verdict::within : Verdict::exceeds;
  EXPECT_EQ(verdict<f>(x, nan, {4}), of_nan) << static_cast<int>(f) << " " << x;
}

TEST(CudaFunctions, EndsOfTheArgument) {
  expect_special<Formula::exp>(infinity, infinity);
  expect_special<Formula::exp>(1000, infinity);
  expect_special<Formula::exp>(-infinity, 0);
  expect_special<Formula::exp>(-3e38F, 0);
  expect_special<Formula::exp2>(nan, nan);
  expect_special<Formula::expm1>(-infinity, -1);
  expect_special<Formula::expm1>(3e38F, infinity);
  expect_special<Formula::log>(0, -infinity);
  expect_special<Formula::log>(-1, nan);
  expect_special<Formula::log>(infinity, infinity);
  expect_special<Formula::log1p>(-1, -infinity);
  expect_special<Formula::log1p>(-2, nan);
  expect_special<Formula::tanh>(-3e38F, -1);
  expect_special<Formula::erf>(infinity, 1);
  expect_special<Formula::erfc>(-infinity, 2);
  expect_special<Formula::erfc>(3e38F, 0);
  expect_special<Formula::rsqrt>(0, infinity);
  expect_special<Formula::rsqrt>(-0.0F, -infinity);
  expect_special<Formula::rsqrt>(infinity, 0);
  expect_special<Formula::rsqrt>(-1, nan);
  expect_special<Formula::exp10>(300, infinity);
  expect_special<Formula::exp10>(-300, 0);
  expect_special<Formula::log2>(0, -infinity);
  expect_special<Formula::log10>(-1, nan);
  expect_special<Formula::sin>(infinity, nan);
  expect_special<Formula::cos>(-infinity, nan);
  expect_special<Formula::sqrt>(infinity, infinity);
  expect_special<Formula::sqrt>(-0.0F, -0.0F);
  expect_special<Formula::sqrt>(-1, nan);
  expect_special<Formula::reciprocal>(0, infinity);
  expect_special<Formula::reciprocal>(-0.0F, -infinity);
  expect_special<Formula::reciprocal>(-infinity, 0);
}

/// An angle of any size is reduced to what the radius says, of which no fp32 number needs more.
void expect_sine_in_radius(float x) {
  const PrecisionScope scope(400);
  for (const int quarters : {0, 1}) {
    const Exact e = cuda_function::sine(x, quarters);
    const Mpfr exact = quarters == 0 ? sin(from<Mpfr>(x)) : cos(from<Mpfr>(x));
    const Mpfr error = abs(from<Mpfr>(e.high) + from<Mpfr>(e.low) - exact);
    EXPECT_FALSE(is_negative(from<Mpfr>(e.radius) - error)) << x << " " << quarters;
    EXPECT_LE(e.radius, 0x1p-24 * ulp(fp32, e.high)) << x << " " << quarters;
  }
}

TEST(CudaFunctions, SineOfEverySize) {
  for (int exponent = -149; exponent < 128; ++exponent)
    for (const float m : {1.0F, 1.5F, 0x1.921fb6p+0F, 0x1.fffffep+0F, 0x1.234568p+0F})
      expect_sine_in_radius(std::ldexp(m, exponent));
  for (std::uint32_t bits = 0x49800000; bits < 0x7f800000; bits += 65521)
    expect_sine_in_radius(-std::bit_cast<float>(bits));
  expect_sine_in_radius(0x1.f37a8ap+95F);  // 16367173 * 2^72, next to a multiple of pi/2
  expect_sine_in_radius(0x1.fffffep+19F);
  expect_sine_in_radius(0x1p+20F);
  expect_sine_in_radius(0x1.000002p+20F);
}

TEST(CudaFunctions, WhatIsSaidOfAnInterval) {
  const DocumentedError fast_log{3, 0, 0x1p-20, 0.5, 2};
  EXPECT_EQ(verdict<Formula::log>(1, 0x1p-21F, fast_log), Verdict::within);
  EXPECT_EQ(verdict<Formula::log>(1, 0x1p-19F, fast_log), Verdict::exceeds);
  const DocumentedError growing{2, 1.173};  // 2 + 11 ulp at 10
  EXPECT_EQ(verdict<Formula::exp>(10, moved(opbound::exp(10.0F), 13), growing), Verdict::within);
  EXPECT_EQ(verdict<Formula::exp>(10, moved(opbound::exp(10.0F), 15), growing), Verdict::exceeds);
  EXPECT_EQ(verdict<Formula::exp>(-infinity, 1, growing), Verdict::exceeds);
  EXPECT_EQ(verdict<Formula::exp>(10, nan, growing), Verdict::exceeds);
  const DocumentedError around_0{-1, 0, 0x1p-20, -4, 4};  // and nothing elsewhere
  EXPECT_EQ(verdict<Formula::sin>(3, std::sin(3.0F) + 0x1p-21F, around_0), Verdict::within);
  EXPECT_EQ(verdict<Formula::sin>(3, std::sin(3.0F) + 0x1p-19F, around_0), Verdict::exceeds);
  EXPECT_EQ(verdict<Formula::sin>(5, 0.5F, around_0), Verdict::vacuous);
  EXPECT_EQ(verdict<Formula::sin>(infinity, nan, around_0), Verdict::within);
  const DocumentedError relative{-1, 0, 0, 0, 0, 0x1p-11};
  EXPECT_EQ(verdict<Formula::tanh>(50, 1 - 0x1.8p-12F, relative), Verdict::within);
  EXPECT_EQ(verdict<Formula::tanh>(50, 1 - 0x1.8p-11F, relative), Verdict::exceeds);
  EXPECT_EQ(verdict<Formula::tanh>(0x1p-149F, 0x1p-149F, relative), Verdict::within);
  EXPECT_EQ(verdict<Formula::tanh>(0x1p-149F, 0, relative), Verdict::exceeds);
  EXPECT_EQ(verdict<Formula::tanh>(1, 7, {}), Verdict::vacuous);
}

TEST(CudaFunctions, EveryRowSaysWhatItComputes) {
  for (const CudaFunctionInfo& f : cuda_functions()) {
    const DocumentedError& e = f.error;
    EXPECT_EQ(f.documented.empty(), e.ulp < 0 && e.absolute == 0 && e.relative == 0) << f.name;
    EXPECT_FALSE(f.name.empty());
  }
}

TEST(CudaFunctions, XlaHasFigures) {
  EXPECT_EQ(xla_error(Formula::exp, fp32).measured, 2);
  EXPECT_EQ(xla_error(Formula::exp, fp32).allowed, 7);
  EXPECT_EQ(xla_error(Formula::exp2, bf16).measured, 101);
  EXPECT_FALSE(xla_error(Formula::exp2, bf16).allowed);
  EXPECT_FALSE(xla_error(Formula::exp10, fp32).measured);
}

}  // namespace
}  // namespace opbound
