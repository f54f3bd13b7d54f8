// Proofs of ops/format.hpp against the standards' formats written in integers.
#include "ops/format.hpp"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include "tests/format_spec.hpp"

namespace opbound {
namespace {

using spec::Layout;
using spec::same_value;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

constexpr Layout all_layouts[] = {spec::fp64_layout, spec::fp32_layout, spec::tf32_layout,
                                  spec::bf16_layout, spec::fp16_layout, spec::e4m3_layout,
                                  spec::e5m2_layout};
constexpr Layout rounding_layouts[] = {spec::fp32_layout, spec::tf32_layout, spec::bf16_layout,
                                       spec::fp16_layout, spec::e4m3_layout, spec::e5m2_layout};
constexpr Layout small_layouts[] = {spec::bf16_layout, spec::fp16_layout, spec::e4m3_layout,
                                    spec::e5m2_layout};

std::string hex(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%a", x);
  return text.data();
}

double specified(const Layout& l, double x) {
  if (std::isnan(x)) return nan;
  if (std::isinf(x)) return spec::value_of(l, spec::overflow_pattern(l, x < 0));
  return spec::value_of(l, spec::rounded(l, spec::exact_of(x)));
}

double specified_truncation(const Layout& l, double x) {
  return spec::value_of(l, spec::rounded(l, spec::exact_of(x), spec::Rounding::toward_zero));
}

void expect_rounds_right(const Layout& l, double magnitude) {
  for (const double x : {magnitude, -magnitude}) {
    EXPECT_PRED2(same_value, round_to(l.format, x), specified(l, x))
        << name_of(l.format) << ' ' << hex(x);
    EXPECT_PRED2(same_value, truncate_to(l.format, x), specified_truncation(l, x))
        << name_of(l.format) << ' ' << hex(x);
  }
}

/// A finite double whose exponent is uniform over all of them.
double any_double(std::mt19937_64& random) {
  for (;;) {
    const auto x = std::bit_cast<double>(random());
    if (std::isfinite(x)) return x;
  }
}

TEST(Format, ConstantsAreThoseOfTheStandards) {
  EXPECT_EQ(fp64.largest(), std::numeric_limits<double>::max());
  EXPECT_EQ(fp32.largest(), std::numeric_limits<float>::max());
  EXPECT_EQ(tf32.largest(), 0x1.ffcp127);
  EXPECT_EQ(bf16.largest(), 0x1.fep127);
  EXPECT_EQ(fp16.largest(), 65504);
  EXPECT_EQ(e4m3.largest(), 448);
  EXPECT_EQ(e5m2.largest(), 57344);
  EXPECT_EQ(fp64.smallest_subnormal(), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(fp32.smallest_subnormal(), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(fp64.unit_roundoff(), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(fp32.unit_roundoff(), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(fp64.smallest_normal(), std::numeric_limits<double>::min());
  EXPECT_EQ(fp32.smallest_normal(), std::numeric_limits<float>::min());
  for (std::size_t i = 0; i < all_formats.size(); ++i) {
    const Format& f = all_formats[i];
    EXPECT_EQ(static_cast<std::size_t>(f.kind), i);
    EXPECT_EQ(all_layouts[i].format, f);
    EXPECT_EQ(f.smallest_subnormal(), spec::value_of(all_layouts[i], 1)) << name_of(f);
    EXPECT_EQ(f.largest(), spec::value_of(all_layouts[i], all_layouts[i].largest)) << name_of(f);
    EXPECT_EQ(round_to(f, f.eta()), f == fp64 ? f.eta() : 0) << name_of(f);
    EXPECT_GE(f.eta() * 2, f.smallest_subnormal()) << name_of(f);
  }
}

TEST(Format, EveryPatternDecodesAndEncodes) {
  for (const Layout& l : small_layouts) {
    const Format& f = l.format;
    for (std::uint64_t pattern = 0; pattern < 2 * l.sign_bit(); ++pattern) {
      const double value = decode(f, pattern);
      EXPECT_PRED2(same_value, value, spec::value_of(l, pattern)) << name_of(f) << ' ' << pattern;
      EXPECT_EQ(encode(f, value), std::isnan(value) ? l.nan : pattern) << name_of(f);
      EXPECT_PRED2(same_value, round_to(f, value), value) << name_of(f) << ' ' << pattern;
      if (std::isfinite(value)) {
        EXPECT_PRED2(same_value, truncate_to(f, value), value) << name_of(f) << ' ' << pattern;
      }
    }
  }
}

TEST(Format, WidePatternsDecodeAndEncode) {
  std::mt19937_64 random(1);
  for (const Layout& l : {spec::fp64_layout, spec::fp32_layout, spec::tf32_layout}) {
    const std::uint64_t ends[] = {0, 1, l.largest, l.largest + 1, l.nan};
    const std::uint64_t all = l.sign_bit() | (l.sign_bit() - 1);
    for (int trial = 0; trial < 100000; ++trial) {
      const std::uint64_t pattern =
          (trial < 10 ? ends[trial / 2] | (trial % 2 == 0 ? 0 : l.sign_bit()) : random()) & all;
      const double value = decode(l.format, spec::storage_of(l, pattern));
      EXPECT_PRED2(same_value, value, spec::value_of(l, pattern)) << pattern;
      EXPECT_EQ(encode(l.format, value), spec::storage_of(l, std::isnan(value) ? l.nan : pattern));
    }
  }
}

TEST(Format, InfinityWhereThereIsNoneIsStoredAsNaN) { EXPECT_EQ(encode(e4m3, infinity), 0x7f); }

TEST(Format, NeighboursAreOneUlpApart) {
  for (const Layout& l : small_layouts)
    for (std::uint64_t pattern = 0; pattern < l.largest; ++pattern) {
      const double value = spec::value_of(l, pattern);
      EXPECT_EQ(spec::value_of(l, pattern + 1) - value, ulp(l.format, value));
      EXPECT_EQ(ulp(l.format, -value), ulp(l.format, value));
    }
}

// Between two neighbours a and b: both ends, the midpoint, and what lies next to each of the three.
TEST(RoundTo, EveryMidpointAndItsNeighbours) {
  for (const Layout& l : small_layouts) {
    for (std::uint64_t pattern = 0; pattern <= l.largest; ++pattern) {
      const double a = spec::value_of(l, pattern);
      const double step = ulp(l.format, a);
      for (const double x : {a, a + step / 2, a + step}) {
        expect_rounds_right(l, x);
        expect_rounds_right(l, std::nextafter(x, infinity));
        if (x > 0) expect_rounds_right(l, std::nextafter(x, 0.0));
      }
    }
  }
}

TEST(RoundTo, EveryScale) {
  std::mt19937_64 random(2);
  for (const Layout& l : all_layouts) {
    for (int e = -1074; e <= 1023; ++e)
      for (const double m : {1.0, 1.25, 1.5, 1.75, 2 - 0x1p-52})
        expect_rounds_right(l, std::ldexp(m, e));
    for (int trial = 0; trial < 20000; ++trial) expect_rounds_right(l, any_double(random));
  }
}

TEST(RoundTo, WideMidpointsAndTheirNeighbours) {
  std::mt19937_64 random(3);
  for (const Layout& l : {spec::fp32_layout, spec::tf32_layout})
    for (int trial = 0; trial < 100000; ++trial) {
      const std::uint64_t pattern = random() % (l.largest + 1) >> random() % 28;
      const double a = spec::value_of(l, pattern);
      const double middle = a + ulp(l.format, a) / 2;
      expect_rounds_right(l, middle);
      expect_rounds_right(l, std::nextafter(middle, infinity));
      expect_rounds_right(l, std::nextafter(middle, 0.0));
    }
}

TEST(RoundTo, OverflowPolicies) {
  EXPECT_EQ(round_to(fp16, 65519.99), 65504);
  EXPECT_EQ(round_to(fp16, 65520), infinity);
  EXPECT_EQ(round_to(fp16, -65520), -infinity);
  EXPECT_EQ(round_to(fp16.saturating(), 65520), 65504);
  EXPECT_EQ(round_to(e4m3, 464), 448);  // halfway to the missing 480, and 448 is even
  EXPECT_TRUE(std::isnan(round_to(e4m3, 464.0001)));
  EXPECT_TRUE(std::isnan(round_to(e4m3, 465)));
  EXPECT_TRUE(std::isnan(round_to(e4m3, -1e300)));
  EXPECT_EQ(round_to(e4m3.saturating(), 465), 448);
  EXPECT_EQ(round_to(e4m3.saturating(), -1e300), -448);
  EXPECT_EQ(round_to(e5m2, 61439.99), 57344);
  EXPECT_EQ(round_to(e5m2, 61440), infinity);
  EXPECT_EQ(round_to(bf16, 0x1.fefffffffffffp127), 0x1.fep127);
  EXPECT_EQ(round_to(bf16, 0x1.ffp127), infinity);
  for (const Layout& l : all_layouts) {
    if (l.format == fp64) continue;
    const double edge = l.format.largest() + ulp(l.format, l.format.largest()) / 2;
    for (const Overflow overflow : {Overflow::to_infinity, Overflow::to_nan, Overflow::saturate}) {
      Layout changed = l;
      changed.format.overflow = overflow;
      if (overflow == Overflow::to_infinity && !l.format.has_infinity()) continue;
      for (const double x : {edge, std::nextafter(edge, 0.0), std::nextafter(edge, infinity),
                             2 * edge, 1e300, infinity})
        for (const double z : {x, -x})
          EXPECT_PRED2(same_value, round_to(changed.format, z), specified(changed, z))
              << name_of(l.format) << ' ' << hex(z);
    }
  }
}

TEST(RoundTo, NaNAndInfinity) {
  const double payloads[] = {nan, -nan, std::bit_cast<double>(0x7fffffffffffffffU),
                             std::bit_cast<double>(0x7ff0000000000001U)};
  for (const Format& f : all_formats) {
    for (const double x : payloads) {
      EXPECT_TRUE(std::isnan(round_to(f, x))) << name_of(f);
      EXPECT_TRUE(std::isnan(round_to(f.saturating(), x))) << name_of(f);
      EXPECT_TRUE(std::isnan(truncate_to(f, x))) << name_of(f);
      EXPECT_TRUE(std::isnan(round_stochastic(f, x, 7))) << name_of(f);
    }
    const double beyond = f == e4m3 ? nan : infinity;
    EXPECT_PRED2(same_value, round_to(f, infinity), beyond);
    EXPECT_PRED2(same_value, round_to(f, -infinity), -beyond);
    EXPECT_PRED2(same_value, truncate_to(f, -infinity), -beyond);
    EXPECT_PRED2(same_value, round_stochastic(f, infinity, 7), beyond);
  }
}

TEST(RoundTo, IsAConstantExpression) {
  static_assert(round_to(bf16, 1.00390625) == 1.0);
  static_assert(round_to(bf16, 1.01171875) == 1.015625);
  static_assert(truncate_to(fp16, 65535) == 65504);
  static_assert(decode(e4m3, encode(e4m3, 0x1p-9)) == 0x1p-9);
}

/// A positive finite value low + k/2^16 steps of f, and that k.
struct Sixteenths {
  double low, step;
  std::uint32_t k;
  double value() const { return low + step * k * 0x1p-16; }
};

Sixteenths random_position(const Layout& l, std::mt19937_64& random) {
  const std::uint64_t pattern = random() % l.largest;
  const double low = spec::value_of(l, pattern);
  return {low, spec::value_of(l, pattern + 1) - low, static_cast<std::uint32_t>(random() % 65536)};
}

// With words that are uniform on 2^16 values (the rest zero), E[result] is x, exactly: of all 2^16
// words exactly k go up.
TEST(RoundStochastic, ExpectationIsExact) {
  std::mt19937_64 random(4);
  for (const Layout& l : rounding_layouts) {
    for (int trial = 0; trial < 12; ++trial) {
      const Sixteenths x = random_position(l, random);
      const double sign = trial % 2 == 0 ? 1 : -1;
      std::uint32_t ups = 0;
      for (std::uint32_t top = 0; top < 65536; ++top) {
        const double got = round_stochastic(l.format, sign * x.value(), top << 16);
        const bool up = got == sign * (x.low + x.step);
        ups += up;
        ASSERT_TRUE(up || same_value(got, sign * x.low)) << name_of(l.format) << hex(x.value());
      }
      EXPECT_EQ(ups, x.k) << name_of(l.format) << ' ' << hex(x.value());
    }
  }
}

// For any x the words that go up are those below a threshold, position * 2^32 rounded up.
TEST(RoundStochastic, ThresholdIsThePosition) {
  std::mt19937_64 random(5);
  for (const Layout& l : rounding_layouts) {
    for (int trial = 0; trial < 20000; ++trial) {
      const std::uint64_t pattern = random() % l.largest;
      const double low = spec::value_of(l, pattern), high = spec::value_of(l, pattern + 1);
      const double x = low + (high - low) * std::ldexp(static_cast<double>(random() >> 40), -24);
      const auto threshold =
          static_cast<std::uint64_t>(std::ceil((x - low) / (high - low) * 0x1p32));
      if (threshold > 0) {
        EXPECT_EQ(round_stochastic(l.format, x, static_cast<std::uint32_t>(threshold - 1)), high);
      }
      if (threshold <= 0xffffffffU) {
        EXPECT_EQ(round_stochastic(l.format, x, static_cast<std::uint32_t>(threshold)), low);
      }
    }
  }
}

TEST(RoundStochastic, NeverMovesARepresentableValue) {
  for (const Layout& l : small_layouts)
    for (std::uint64_t pattern = 0; pattern < 2 * l.sign_bit(); ++pattern) {
      const double x = spec::value_of(l, pattern);
      for (const std::uint32_t word : {0U, 1U, 0x80000000U, 0xffffffffU})
        EXPECT_PRED2(same_value, round_stochastic(l.format, x, word), x) << name_of(l.format);
    }
}

// ---- full tier
// -----------------------------------------------------------------------------------

/// How many of all 2^32 fp32 patterns round_to sends elsewhere than the specification does.
std::uint64_t wrong_among_all_floats(const Layout& l) {
  return spec::sum_in_parallel(65536, [&l](std::uint64_t high) {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = high << 16; i >> 16 == high; ++i) {
      const double x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
      const std::uint64_t got = encode(l.format, round_to(l.format, x));
      const std::uint64_t magnitude = i & 0x7fffffff;
      const std::uint64_t exact = magnitude > 0x7f800000 ? l.nan
                                  : magnitude == 0x7f800000
                                      ? spec::overflow_pattern(l, i != magnitude)
                                      : spec::rounded(l, spec::exact_of(spec::fp32_layout, i));
      wrong += got != spec::storage_of(l, exact);
    }
    return wrong;
  });
}

TEST(FullRoundTo, EveryFloatToTf32) { EXPECT_EQ(wrong_among_all_floats(spec::tf32_layout), 0U); }
TEST(FullRoundTo, EveryFloatToBf16) { EXPECT_EQ(wrong_among_all_floats(spec::bf16_layout), 0U); }
TEST(FullRoundTo, EveryFloatToFp16) { EXPECT_EQ(wrong_among_all_floats(spec::fp16_layout), 0U); }
TEST(FullRoundTo, EveryFloatToE4m3) { EXPECT_EQ(wrong_among_all_floats(spec::e4m3_layout), 0U); }
TEST(FullRoundTo, EveryFloatToE5m2) { EXPECT_EQ(wrong_among_all_floats(spec::e5m2_layout), 0U); }

/// vcvtps2ph, eight floats from the pattern `first` on.
std::array<std::uint16_t, 8> hardware_fp16(std::uint32_t first) {
  const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i patterns = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first)), steps);
  const __m128i halves = _mm256_cvtps_ph(_mm256_castsi256_ps(patterns), _MM_FROUND_TO_NEAREST_INT);
  return std::bit_cast<std::array<std::uint16_t, 8>>(halves);
}

TEST(FullRoundTo, EveryFloatToFp16AsTheHardwareDoes) {
  const auto wrong = [](std::uint64_t high) {
    std::uint64_t count = 0;
    for (std::uint32_t low = 0; low < 65536; low += 8) {
      const std::uint32_t first = static_cast<std::uint32_t>(high << 16) + low;
      const std::array<std::uint16_t, 8> exact = hardware_fp16(first);
      for (std::uint32_t lane = 0; lane < 8; ++lane) {
        const double x = std::bit_cast<float>(first + lane);
        const std::uint64_t got = encode(fp16, round_to(fp16, x));
        count +=
            std::isnan(x) ? got != 0x7e00 || (exact[lane] & 0x7fff) <= 0x7c00 : got != exact[lane];
      }
    }
    return count;
  };
  EXPECT_EQ(spec::sum_in_parallel(65536, wrong), 0U);
}

}  // namespace
}  // namespace opbound
