// What judges CUDA's functions, on the host: correctly rounded results pass as such, results one
// ulp farther away than is documented do not.
#include "reference/cuda_functions.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/cuda_functions/judged.hpp"

namespace opbound {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <Function f>
Verdict verdict(float x, float got, const DocumentedError& documented) {
  const Judge judge{{fp32, false}, false, fp64_doubt_ulp};
  const auto bits = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(x));
  return judge.of(cuda_function::element_of<f>(bits, got, fp32, documented), false).verdict;
}

float moved(float x, int steps) {
  for (int i = 0; i < steps; ++i) x = std::nextafter(x, infinity);
  return x;
}

/// `rounded`: the function, correctly rounded (tests/test_elementary_full.cpp).
template <Function f>
void expect_distances_are_told(float (*rounded)(float)) {
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

/// Far out exp is 0, whatever is documented of numbers.
TEST(CudaFunctions, WhatHasVanishedIs0) {
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float x : {-120.0F, -150.0F, -1e30F}) {
    EXPECT_EQ(verdict<Function::exp>(x, 0, {2}), Verdict::within) << x;
    EXPECT_EQ(verdict<Function::exp>(x, least, {2}), Verdict::exceeds) << x;
    EXPECT_EQ(verdict<Function::erfc>(-x, 0, {4}), Verdict::within) << x;
    EXPECT_EQ(verdict<Function::erfc>(-x, least, {4}), Verdict::exceeds) << x;
  }
  EXPECT_EQ(verdict<Function::exp>(-103.5F, least, {2}), Verdict::within);  // 0.8 of it
  EXPECT_EQ(verdict<Function::exp>(-104.5F, least, {2}), Verdict::within);  // 0.3 of it
  EXPECT_EQ(verdict<Function::exp>(-106, least, {2}), Verdict::exceeds);    // 0.07
}

TEST(CudaFunctions, DistancesAreTold) {
  expect_distances_are_told<Function::exp>([](float x) { return opbound::exp(x); });
  expect_distances_are_told<Function::exp2>([](float x) { return opbound::exp2(x); });
  expect_distances_are_told<Function::expm1>([](float x) { return opbound::expm1(x); });
  expect_distances_are_told<Function::log>([](float x) { return opbound::log(x); });
  expect_distances_are_told<Function::log1p>([](float x) { return opbound::log1p(x); });
  expect_distances_are_told<Function::tanh>([](float x) { return opbound::tanh(x); });
  expect_distances_are_told<Function::erf>([](float x) { return opbound::erf(x); });
  expect_distances_are_told<Function::erfc>([](float x) { return opbound::erfc(x); });
  expect_distances_are_told<Function::rsqrt>([](float x) { return opbound::rsqrt(x); });
}

template <Function f>
void expect_special(float x, float right) {
  EXPECT_EQ(verdict<f>(x, right, {4}), Verdict::within) << static_cast<int>(f) << " " << x;
  const float wrong = right == 0.5F ? 0.25F : 0.5F;
  EXPECT_EQ(verdict<f>(x, wrong, {4}), Verdict::exceeds) << static_cast<int>(f) << " " << x;
  const Verdict of_nan = std::isnan(right) ? Verdict::within : Verdict::exceeds;
  EXPECT_EQ(verdict<f>(x, nan, {4}), of_nan) << static_cast<int>(f) << " " << x;
}

TEST(CudaFunctions, EndsOfTheArgument) {
  expect_special<Function::exp>(infinity, infinity);
  expect_special<Function::exp>(1000, infinity);
  expect_special<Function::exp>(-infinity, 0);
  expect_special<Function::exp>(-3e38F, 0);
  expect_special<Function::exp2>(nan, nan);
  expect_special<Function::expm1>(-infinity, -1);
  expect_special<Function::expm1>(3e38F, infinity);
  expect_special<Function::log>(0, -infinity);
  expect_special<Function::log>(-1, nan);
  expect_special<Function::log>(infinity, infinity);
  expect_special<Function::log1p>(-1, -infinity);
  expect_special<Function::log1p>(-2, nan);
  expect_special<Function::tanh>(-3e38F, -1);
  expect_special<Function::erf>(infinity, 1);
  expect_special<Function::erfc>(-infinity, 2);
  expect_special<Function::erfc>(3e38F, 0);
  expect_special<Function::rsqrt>(0, infinity);
  expect_special<Function::rsqrt>(-0.0F, -infinity);
  expect_special<Function::rsqrt>(infinity, 0);
  expect_special<Function::rsqrt>(-1, nan);
}

TEST(CudaFunctions, WhatIsSaidOfAnInterval) {
  const DocumentedError fast_log{3, 0, 0x1p-20, 0.5, 2};
  EXPECT_EQ(verdict<Function::log>(1, 0x1p-21F, fast_log), Verdict::within);
  EXPECT_EQ(verdict<Function::log>(1, 0x1p-19F, fast_log), Verdict::exceeds);
  const DocumentedError growing{2, 1.173};  // 2 + 11 ulp at 10
  EXPECT_EQ(verdict<Function::exp>(10, moved(opbound::exp(10.0F), 13), growing), Verdict::within);
  EXPECT_EQ(verdict<Function::exp>(10, moved(opbound::exp(10.0F), 15), growing), Verdict::exceeds);
  EXPECT_EQ(verdict<Function::exp>(-infinity, 1, growing), Verdict::exceeds);
  EXPECT_EQ(verdict<Function::exp>(10, nan, growing), Verdict::exceeds);
}

TEST(CudaFunctions, EveryRowSaysWhatItComputes) {
  for (const CudaFunctionInfo& f : cuda_functions()) {
    EXPECT_EQ(f.documented.empty(), f.error.ulp < 0) << f.name;
    EXPECT_FALSE(f.name.empty());
  }
}

}  // namespace
}  // namespace opbound
