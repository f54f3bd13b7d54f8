// Input generators: the values that every machine makes, their distributions, and what each kind
// promises of its values.
#include "suites/input.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ops/number.hpp"
#include "suites/generator.hpp"

namespace opbound {
namespace {

Tensor filled(const Format& f, const Shape& shape, std::string_view input, std::uint64_t seed = 1,
              std::string_view stream = "x") {
  Tensor t(f, shape);
  fill_input(t, parse_input(input), seed, stream);
  return t;
}

std::vector<double> values(const Format& f, const Shape& shape, std::string_view input,
                           std::uint64_t seed = 1, std::string_view stream = "x") {
  return filled(f, shape, input, seed, stream).values();
}

// ---- the same values everywhere

// The published answers of FNV-1a (the test suite of its authors).
static_assert(detail::stream_of("") == 0xcbf29ce484222325);
static_assert(detail::stream_of("a") == 0xaf63dc4c8601ec8c);
static_assert(detail::stream_of("foobar") == 0x85944171f73967e8);

// Made in Python: Philox and FNV-1a from their papers, log, sqrt and cos by mpmath at 200 bits, the
// generator's formula, one rounding to the format.
TEST(Input, MakesTheValuesOfAnIndependentComputation) {
  using Values = std::vector<double>;
  EXPECT_EQ(values(fp32, {4}, "normal"),
            (Values{-0x1.0d37acp+0, 0x1.338076p-2, 0x1.def5a4p-2, 0x1.cff4ap-3}));
  EXPECT_EQ(values(fp32, {2}, "normal(mean=3, sigma=5)", (std::uint64_t{1} << 40) + 7, "dy"),
            (Values{0x1.664aeap+2, 0x1.615704p+0}));
  EXPECT_EQ(values(fp32, {4}, "uniform"),
            (Values{0x1.2cef26p-3, 0x1.3e183p-1, 0x1.90d8d6p-1, 0x1.e606f2p-1}));
  EXPECT_EQ(values(bf16, {4}, "log_spaced"), (Values{-0x1.92p+7, 0x1.dp+5, 0x1.e4p-2, 0x1.fap+6}));
  EXPECT_EQ(values(fp32, {4}, "gelu_zero"),
            (Values{-0x1.80d7e4p-1, -0x1.80eb8p-1, -0x1.80ebp-1, -0x1.80ead4p-1}));
}

TEST(Input, APlaceBeyond32BitsHasItsOwnWords) {
  const std::uint64_t index = std::uint64_t{1} << 33;
  detail::Place place{fp32, {}, 1, (std::uint64_t{1} << 40) + 7, detail::stream_of("dy"), index};
  const double z = detail::standard_normal(place.words());
  EXPECT_EQ(round_to(fp32, 3 + 5 * z), 0x1.6d8c1cp+3);
}

// A row is the unit of structure; nothing depends on how many rows there are.
TEST(Input, DoesNotDependOnTheNumberOfRows) {
  for (const GeneratorInfo& g : all_generators()) {
    if (g.parameters.starts_with("path") || g.domain != Domain::numbers) continue;
    const Tensor few = filled(bf16, {3, 12}, g.kind), many = filled(bf16, {50, 12}, g.kind);
    EXPECT_TRUE(std::equal(few.bytes().begin(), few.bytes().end(), many.bytes().begin())) << g.kind;
  }
}

TEST(Input, SeedsAndStreamsShareNothing) {
  const Shape shape{4096};
  std::vector<double> all = values(fp64, shape, "normal", 1, "x");
  for (const auto& [seed, stream] :
       {std::pair{1, "dy"}, std::pair{2, "x"}, std::pair{2, "dy"}, std::pair{1, "y"}}) {
    const auto more = values(fp64, shape, "normal", static_cast<std::uint64_t>(seed), stream);
    all.insert(all.end(), more.begin(), more.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

// ---- distributions
// The inputs are fixed, so a test either holds for good or never; each was chosen before the values
// were seen, with a false-alarm rate of at most 1e-9 for a generator that is right.

constexpr double false_alarm = 1e-9;
constexpr std::int64_t many = 200000;

/// The largest distance of the empirical distribution function from `cdf`; it exceeds sqrt(ln(2 /
/// alpha) / (2 n)) with probability at most alpha (Dvoretzky, Kiefer and Wolfowitz 1956; Massart
/// 1990).
double distance(std::vector<double> sample, const std::function<double(double)>& cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double largest = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double p = cdf(sample[i]);
    largest =
        std::max({largest, static_cast<double>(i + 1) / n - p, p - static_cast<double>(i) / n});
  }
  return largest;
}
double allowed_distance(std::int64_t n) {
  return std::sqrt(std::log(2 / false_alarm) / (2 * static_cast<double>(n)));
}

TEST(InputDistribution, Normal) {
  const auto cdf = [](double x) { return std::erfc(-(x - 2) / 3 * std::sqrt(0.5)) / 2; };
  const std::vector<double> x = values(fp64, {many}, "normal(mean=2, sigma=3)");
  EXPECT_LE(distance(x, cdf), allowed_distance(many));
}

// The sum of n squares is chi-square: above n + 2 sqrt(n t) + 2 t, or below n - 2 sqrt(n t), each
// with probability at most exp(-t) (Laurent and Massart 2000). Products of independent streams have
// mean 0 and are sums and differences of two such squares, |sum| <= 2 sqrt(n t) + 2 t.
TEST(InputDistribution, NormalHasItsVarianceAndIndependentStreams) {
  const std::vector<double> x = values(fp64, {many}, "normal"),
                            y = values(fp64, {many}, "normal", 1, "dy");
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    squares += x[i] * x[i];
    products += x[i] * y[i];
  }
  const double n = many, t = std::log(4 / false_alarm);
  EXPECT_LE(squares, n + 2 * std::sqrt(n * t) + 2 * t);
  EXPECT_GE(squares, n - 2 * std::sqrt(n * t));
  EXPECT_LE(std::abs(products), 2 * std::sqrt(n * t) + 2 * t);
}

TEST(InputDistribution, NormalStaysWithinItsTail) {
  // The smallest and the largest uniform number.
  const double deepest = detail::standard_normal({0, 0, 0, 0});
  EXPECT_GT(deepest, 8.5);
  EXPECT_LT(deepest, 8.6);
  EXPECT_LT(detail::standard_normal({~0U, ~0U, 0, 0}), 0x1p-25);
  EXPECT_GT(detail::standard_normal({~0U, ~0U, 0, 0}), 0);
}

TEST(InputDistribution, Uniform) {
  const auto cdf = [](double x) { return (x + 3) / 10; };
  const std::vector<double> x = values(fp64, {many}, "uniform(low=-3, high=7)");
  EXPECT_LE(distance(x, cdf), allowed_distance(many));
  EXPECT_GE(*std::min_element(x.begin(), x.end()), -3);
  EXPECT_LE(*std::max_element(x.begin(), x.end()), 7);
  const double huge = fp64.largest();
  for (const double v : values(fp64, {100}, "uniform(low=-1.7e308, high=1.7e308)"))
    EXPECT_LE(std::abs(v), huge);
  for (const double v : values(fp64, {100}, "uniform(low=0.1, high=0.1)")) EXPECT_EQ(v, 0.1);
}

// Exponent, significand and sign are uniform: as one number in [0, 1), each.
TEST(InputDistribution, LogSpaced) {
  std::vector<double> exponents, significands, signs;
  for (const double x : values(fp64, {many}, "log_spaced(low=-3, high=4)")) {
    const int e = std::ilogb(x);
    EXPECT_TRUE(-3 <= e && e <= 4);
    exponents.push_back((e + 3) / 8.0);
    significands.push_back(std::abs(x) / std::exp2(e) - 1);
    signs.push_back(x < 0 ? 0.5 : 0);
  }
  const auto steps = [](double width) {  // of a number uniform on 0, width, 2 width, ...
    return [width](double x) { return x + width; };
  };
  const auto count_up_to = [](const std::vector<double>& v, double limit) {
    return static_cast<double>(
               std::count_if(v.begin(), v.end(), [&](double x) { return x <= limit; })) /
           static_cast<double>(v.size());
  };
  EXPECT_LE(distance(significands, [](double x) { return x; }), allowed_distance(many));
  for (int k = 0; k < 8; ++k)
    EXPECT_LE(std::abs(count_up_to(exponents, k / 8.0) - steps(0.125)(k / 8.0)),
              allowed_distance(many));
  EXPECT_LE(std::abs(count_up_to(signs, 0) - 0.5), allowed_distance(many));
}

// ---- the ends of the range, and GELU's hard places

TEST(InputRange, SubnormalAndNearOverflow) {
  for (const Format& f : all_formats) {
    std::set<double> lengths;
    for (const double x : values(f, {4000}, "subnormal")) {
      EXPECT_LT(std::abs(x), f.smallest_normal());
      EXPECT_GE(std::abs(x), f.smallest_subnormal());
      lengths.insert(std::ilogb(x));
    }
    EXPECT_EQ(lengths.size(), static_cast<std::size_t>(f.digits - 1)) << name_of(f);
    for (const double x : values(f, {4000}, "near_overflow(binades=2)")) {
      EXPECT_LE(std::abs(x), f.largest());
      EXPECT_GE(std::abs(x), power_of_two(f.exponent_max - 1));
    }
  }
}

TEST(InputRange, GeluTailAndZero) {
  for (const double x : values(fp32, {4000}, "gelu_tail")) EXPECT_TRUE(-14.5 <= x && x <= -3);
  constexpr double x0 = -0.751791524693564457;
  std::set<int> scales;
  for (const double x : values(fp64, {4000}, "gelu_zero")) {
    EXPECT_LT(std::abs(x / x0 - 1), 1);
    if (x != x0) scales.insert(std::ilogb(x / x0 - 1));
  }
  for (int k = 2; k < 52; ++k) EXPECT_TRUE(scales.contains(-k)) << k;
}

// ---- lists

TEST(InputList, EveryPatternOnce) {
  for (const Format& f : {bf16, fp16, e4m3, e5m2}) {
    const std::uint64_t patterns = std::uint64_t{1} << f.bits();
    const auto n = static_cast<std::int64_t>(patterns);
    const Tensor t = filled(f, {n + 3}, "every_pattern");
    const auto width = static_cast<std::size_t>(f.bytes());
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < patterns + 3; ++i) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, t.bytes().data() + i * width, width);
      wrong += bits != i % patterns ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0U) << name_of(f);
  }
}

TEST(InputList, EveryFiniteValueOnce) {
  for (const Format& f : {bf16, fp16, e4m3, e5m2}) {
    std::set<std::uint64_t> wanted, got;
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << f.bits(); ++bits)
      if (std::isfinite(decode(f, bits))) wanted.insert(bits);
    const auto n = static_cast<std::int64_t>(wanted.size());
    for (const double x : values(f, {n}, "finite_patterns")) got.insert(encode(f, x));
    EXPECT_EQ(got, wanted) << name_of(f);
    EXPECT_EQ(values(f, {n + 1}, "finite_patterns").back(), 0);
  }
}

TEST(InputList, SpecialValuesInOrder) {
  const auto same = [](double a, double b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  };
  const auto expect = [&](const Format& f, std::string_view kind, std::vector<double> wanted) {
    const auto n = static_cast<std::int64_t>(wanted.size());
    wanted.push_back(0);  // from the start again
    const std::vector<double> got = values(f, {n + 1}, kind);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.begin(), wanted.end(), same))
        << name_of(f) << " " << kind;
  };
  constexpr double inf = detail::infinity, nan = detail::not_a_number;
  expect(fp16, "special",
         {0, -0.0, 0x1p-24, -0x1p-24, 0x1.ff8p-15, -0x1.ff8p-15, 0x1p-14, -0x1p-14, 1, -1, 65504,
          -65504, inf, -inf, nan});
  expect(fp16, "finite_special",
         {0, -0.0, 0x1p-24, -0x1p-24, 0x1.ff8p-15, -0x1.ff8p-15, 0x1p-14, -0x1p-14, 1, -1, 65504,
          -65504});
  expect(e4m3, "special",
         {0, -0.0, 0x1p-9, -0x1p-9, 0x1.cp-7, -0x1.cp-7, 0x1p-6, -0x1p-6, 1, -1, 448, -448, nan});
}

TEST(InputList, Constant) {
  EXPECT_EQ(values(fp16, {2}, "constant(value=0.1)"), std::vector<double>(2, round_to(fp16, 0.1)));
  EXPECT_EQ(values(fp32, {1}, "constant(value=-inf)")[0], -detail::infinity);
}

// ---- rows and pairs

// The sum in double is exact but for fp64, where it is a sum of two-element sums, each exact
// (Sterbenz 1974) and a multiple of the row's smallest ulp.
TEST(InputRow, CancellationLeavesNextToNothing) {
  for (const Format& f : {fp64, fp32, bf16, fp16}) {
    for (const std::int64_t n : {2, 5, 128, 1001}) {
      const std::vector<double> x = values(f, {8, n}, "cancellation(sigma=3)");
      for (std::int64_t row = 0; row < 8; ++row) {
        double sum = 0, largest = 0;
        int moved = 0;
        for (std::int64_t j = 0; j + 1 < n; j += 2) {
          const auto i = static_cast<std::size_t>(row * n + j);
          const double pair = x[i] + x[i + 1];
          sum += pair;
          moved += pair != 0 ? 1 : 0;
          largest = std::max(largest, std::abs(x[i]));
        }
        EXPECT_LE(std::abs(sum), static_cast<double>(n) / 2 * ulp(f, largest));
        if (n % 2 != 0) {
          EXPECT_EQ(x[static_cast<std::size_t>(row * n + n - 1)], 0);
        }
        if (n > 100) {
          EXPECT_GT(moved, n / 6);
        }
      }
    }
  }
}

/// Where a positive number lies between two neighbouring values of f: 0.5 is a midpoint.
double position(const Format& f, double x) {
  const double steps = std::abs(x) / ulp(f, x);
  return steps - std::floor(steps);
}

// Sums and products of values with at most 24 digits are exact in double here.
TEST(InputRow, TiesAreMidpointsOrNextToOne) {
  for (const Format& f : {fp32, tf32, bf16, fp16, e4m3, e5m2}) {
    const double step = power_of_two(1 - f.digits);
    const std::vector<double> x = values(f, {40000}, "ties");
    int tied_sums = 0, tied_products = 0, near_products = 0;
    for (std::size_t i = 0; i < x.size(); i += 4) {
      const double sum = position(f, x[i] + x[i + 1]), product = position(f, x[i + 2] * x[i + 3]);
      EXPECT_LE(std::abs(sum - 0.5), step / 2) << name_of(f) << " " << i;
      EXPECT_LE(std::abs(product - 0.5), power_of_two(-f.digits)) << name_of(f) << " " << i;
      tied_sums += sum == 0.5 ? 1 : 0;
      tied_products += product == 0.5 ? 1 : 0;
      near_products += product != 0.5 ? 1 : 0;
    }
    EXPECT_GT(tied_sums, 3000) << name_of(f);
    EXPECT_GT(tied_products, 4000) << name_of(f);
    if (f.digits > 4) {
      EXPECT_GT(near_products, 4000) << name_of(f);
    }
  }
}

TEST(InputRow, IncreasingAndOneHot) {
  EXPECT_EQ(values(fp32, {2, 3}, "increasing(start=-1, step=0.5)"),
            (std::vector<double>{-1, -0.5, 0, -1, -0.5, 0}));
  constexpr std::int64_t rows = 64, n = 10;
  const std::vector<double> x = values(bf16, {rows, n}, "one_hot(value=7, background=-2)");
  std::set<std::ptrdiff_t> columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = x.begin() + r * n;
    EXPECT_EQ(std::count(row, row + n, 7), 1);
    EXPECT_EQ(std::count(row, row + n, -2), n - 1);
    columns.insert(std::find(row, row + n, 7) - row);
  }
  EXPECT_EQ(columns.size(), static_cast<std::size_t>(n));  // 10 (9/10)^64 = 0.01 would miss one
}

// ---- documentation

TEST(InputDocumentation, EveryKindIsInTheReadme) {
  std::ifstream file(std::string(OPBOUND_SOURCE_DIR) + "/suites/README.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const GeneratorInfo& g : all_generators()) {
    EXPECT_NE(text.str().find("`" + std::string(g.kind) + "`"), std::string::npos) << g.kind;
    for (std::stringstream words{std::string(g.parameters)}; words;) {
      std::string parameter;
      words >> parameter;
      EXPECT_NE(text.str().find(parameter), std::string::npos) << g.kind << " " << parameter;
    }
  }
}

}  // namespace
}  // namespace opbound
