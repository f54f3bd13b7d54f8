// What judges CUDA's conversions, on the host: the definition against a search through all of a
// format's values, which shares nothing with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "reference/cuda_functions.hpp"

namespace opbound {
namespace {

using conversion::Rounding;
using conversion::Rule;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The finite values of a format from 0 on, rising; the number of one has its bits.
std::vector<double> values_of(const Format& f) {
  std::vector<double> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << (f.bits() - 1); ++bits)
    if (const double x = decode(f, bits); std::isfinite(x)) values.push_back(x);
  return values;
}

/// The value of the format that x, positive and finite, becomes. After the largest comes the one
/// that would be next if exponents went on.
double searched(const Format& f, const std::vector<double>& values, double x, bool is_up,
                bool is_down) {
  const auto above =
      static_cast<std::size_t>(std::lower_bound(values.begin(), values.end(), x) - values.begin());
  if (above < values.size() && values[above] == x) return x;
  const std::size_t n = values.size();
  const double next = above < n ? values[above] : 2 * values[n - 1] - values[n - 2];
  const double below = values[above - 1];
  const double to_next = next - x, to_below = x - below;
  const bool is_nearer = to_next < to_below || (to_next == to_below && above % 2 == 0);
  const bool goes_up = is_up || (!is_down && is_nearer);
  if (above < n || !goes_up) return goes_up ? next : below;
  if (f.overflow == Overflow::saturate) return values[n - 1];
  return f.overflow == Overflow::to_nan ? nan : infinity;
}

double searched(const Rule& rule, const std::vector<double>& values, double x) {
  const bool is_negative = std::signbit(x);
  const Rounding r = rule.rounding;
  const bool is_up = r == (is_negative ? Rounding::downward : Rounding::upward);
  const double y = searched(rule.to, values, std::fabs(x), is_up, !is_up && r != Rounding::nearest);
  return is_negative ? -y : y;
}

/// Numbers at and around every value and every midpoint, and of every size.
std::vector<double> inputs(const Format& f) {
  std::vector<double> found;
  for (std::uint64_t i = 0; i < 5 * (std::uint64_t{1} << f.bits()); ++i)
    found.push_back(conversion::between_values(f, i));
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << f.bits(); ++bits)
    found.push_back(decode(f, bits));
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 400009)
    found.push_back(decode(fp32, bits));
  found.erase(
      std::remove_if(found.begin(), found.end(), [](double x) { return !std::isfinite(x); }),
      found.end());
  return found;
}

TEST(CudaConversions, AreWhatASearchFinds) {
  for (const Format& f : {fp16, bf16, e4m3, e4m3.saturating(), e5m2, e5m2.saturating()}) {
    const std::vector<double> values = values_of(f);
    for (const Rounding r :
         {Rounding::nearest, Rounding::toward_zero, Rounding::upward, Rounding::downward}) {
      if (r != Rounding::nearest && f.overflow != Overflow::to_infinity) continue;  // none is asked
      const Rule rule{fp64, f, r};
      for (const double x : inputs(f)) {
        const double right = searched(rule, values, x);
        ASSERT_TRUE(conversion::is_same(conversion::converted(rule, x), right))
            << x << " to " << name_of(f) << " is " << right << ", mode " << static_cast<int>(r);
      }
    }
  }
}

/// The processor's own, by nextafter for modes that are not its own.
TEST(CudaConversions, OfDoublesAreTheProcessors) {
  constexpr float most = std::numeric_limits<float>::infinity();
  for (std::uint64_t i = 0; i < std::uint64_t{1} << 32; i += 65519) {
    const double x = conversion::between_values(fp32, i);
    const auto nearest = static_cast<float>(x);
    const float up = nearest < x ? std::nextafter(nearest, most) : nearest;
    const float down = nearest > x ? std::nextafter(nearest, -most) : nearest;
    const auto is = [&](Rounding r, float right) {
      return conversion::is_same(conversion::converted({fp64, fp32, r}, x), right);
    };
    ASSERT_TRUE(is(Rounding::nearest, nearest)) << x;
    ASSERT_TRUE(is(Rounding::upward, up)) << x;
    ASSERT_TRUE(is(Rounding::downward, down)) << x;
    ASSERT_TRUE(is(Rounding::toward_zero, std::signbit(x) ? up : down)) << x;
  }
}

TEST(CudaConversions, OfWhatIsNoNumber) {
  const auto of = [](const Format& to, double x, Rounding r = Rounding::nearest) {
    return conversion::converted({fp32, to, r}, x);
  };
  for (const Rounding r : {Rounding::toward_zero, Rounding::upward, Rounding::downward}) {
    EXPECT_EQ(of(fp16, infinity, r), infinity);
    EXPECT_EQ(of(fp16, -infinity, r), -infinity);
    EXPECT_TRUE(std::isnan(of(bf16, nan, r)));
  }
  EXPECT_TRUE(std::isnan(of(e4m3, infinity)));
  EXPECT_EQ(of(e4m3.saturating(), infinity), 448);
  EXPECT_EQ(of(e5m2, -infinity), -infinity);
  EXPECT_EQ(of(e5m2.saturating(), -infinity), -57344);
  EXPECT_TRUE(std::isnan(of(e5m2.saturating(), nan)));
}

/// Each of the five places of every value, once.
TEST(CudaConversions, IndicesNameDifferentDoubles) {
  std::set<std::uint64_t> found;
  for (std::uint64_t i = 0; i < 5 * 256; ++i) {
    const double x = conversion::between_values(e5m2, i);
    if (std::isfinite(x)) found.insert(std::bit_cast<std::uint64_t>(x));
  }
  EXPECT_EQ(found.size(), 5 * 2 * 124U);  // e5m2 has 124 finite magnitudes
  EXPECT_EQ(conversion::inputs_of({fp64, fp32}), std::int64_t{1} << 32);
  EXPECT_EQ(conversion::inputs_of({fp64, fp16}), 5 << 16);
  EXPECT_EQ(conversion::inputs_of({fp16, fp32}), 1 << 16);
}

Verdict verdict(const Rule& rule, double x, std::uint64_t bits) {
  return conversion::judged(rule, x, bits).verdict;
}

TEST(CudaConversions, OnlyTheRightBitsPass) {
  const Rule half{fp32, fp16};
  EXPECT_EQ(verdict(half, 1, 0x3c00), Verdict::within);
  EXPECT_EQ(verdict(half, 1, 0x3c01), Verdict::exceeds);
  EXPECT_EQ(verdict(half, -0.0, 0x8000), Verdict::within);
  EXPECT_EQ(verdict(half, -0.0, 0), Verdict::exceeds);
  EXPECT_EQ(verdict(half, nan, 0x7e00), Verdict::within);
  EXPECT_EQ(verdict(half, nan, 0xfe01), Verdict::within);
  EXPECT_EQ(verdict(half, nan, 0x7c00), Verdict::exceeds);
  EXPECT_EQ(verdict(half, 65520, 0x7c00), Verdict::within);
  EXPECT_EQ(verdict({fp32, fp16, Rounding::toward_zero}, 1e30, 0x7bff), Verdict::within);
  EXPECT_EQ(verdict({fp32, fp16, Rounding::toward_zero}, 1e30, 0x7c00), Verdict::exceeds);
  EXPECT_EQ(verdict({fp32, e4m3}, 1e30, 0xff), Verdict::within);
  EXPECT_EQ(verdict({fp32, e4m3.saturating()}, 1e30, 0x7e), Verdict::within);
}

/// Of a midpoint half an ulp, of a directed mode less than one; none where there is no number.
TEST(CudaConversions, ErrorsAreAgainstTheInput) {
  EXPECT_EQ(conversion::judged({fp32, fp16}, 1 + 0x1p-11, 0x3c00).error_ulp, -0.5);
  EXPECT_EQ(conversion::judged({fp32, fp16, Rounding::upward}, 1 + 0x1p-12, 0x3c01).error_ulp,
            0.75);
  EXPECT_EQ(conversion::judged({fp32, e4m3.saturating()}, 1e30, 0x7e).error_ulp, 0);
  const Judgement wrong = conversion::judged({fp32, fp16}, 1, 0x7c00);
  EXPECT_TRUE(std::isinf(wrong.error_ulp));
  EXPECT_TRUE(wrong.nonfinite_mismatch);
}

TEST(CudaConversions, EveryRowIsAConversion) {
  EXPECT_EQ(cuda_conversions().size(), 44U);
  for (const CudaConversionInfo& c : cuda_conversions()) {
    EXPECT_FALSE(c.name.empty());
    EXPECT_NE(c.rule.from.kind, c.rule.to.kind) << c.name;
    const bool is_directed = c.rule.rounding != Rounding::nearest;
    EXPECT_TRUE(!is_directed || c.rule.to.overflow == Overflow::to_infinity) << c.name;
  }
}

}  // namespace
}  // namespace opbound
