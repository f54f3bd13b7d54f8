// Proofs that every operation of Rounded is the exact result rounded once.
#include "ops/number.hpp"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/arithmetic_spec.hpp"

namespace opbound {
namespace {

using spec::Exact;
using spec::Layout;
using spec::Operand;

template <Layout L>
using Value = Rounded<L.format>;

template <Layout L>
std::uint64_t pattern_of(Value<L> x) {
  const std::uint64_t stored = encode(L.format, to_double(x));
  return L.format.kind == Kind::tf32 ? stored >> 13 : stored;
}

template <Layout L>
std::vector<Operand> all_operands() {
  std::vector<Operand> all;
  for (std::uint64_t pattern = 0; pattern < 2 * L.sign_bit(); ++pattern)
    all.push_back(spec::operand(L, pattern));
  return all;
}

// ---- + - * / on pairs

struct Add {
  static auto of(auto a, auto b) { return a + b; }
  static Exact exact(const Exact& a, const Exact& b) { return spec::sum(a, b); }
};
struct Subtract {
  static auto of(auto a, auto b) { return a - b; }
  static Exact exact(const Exact& a, const Exact& b) { return spec::sum(a, spec::negated(b)); }
};
struct Multiply {
  static auto of(auto a, auto b) { return a * b; }
  static Exact exact(const Exact& a, const Exact& b) { return spec::product(a, b); }
};
struct Divide {
  static auto of(auto a, auto b) { return a / b; }
  static Exact exact(const Exact& a, const Exact& b) { return spec::quotient(a, b); }
};

/// With an operand that is not finite, or a divisor 0, double gives the specified zero, infinity or
/// NaN.
template <Layout L, class Operation>
bool is_right(const Operand& a, const Operand& b) {
  const std::uint64_t got = pattern_of<L>(Operation::of(Value<L>{a.value}, Value<L>{b.value}));
  const bool special = !a.is_finite || !b.is_finite ||
                       (std::is_same_v<Operation, Divide> && b.exact.significand == 0);
  return got == (special ? spec::special_pattern(L, Operation::of(static_cast<double>(a.value),
                                                                  static_cast<double>(b.value)))
                         : spec::rounded(L, Operation::exact(a.exact, b.exact)));
}

template <Layout L, class Operation>
std::uint64_t wrong_among_all_pairs() {
  const std::vector<Operand> all = all_operands<L>();
  return spec::sum_in_parallel(std::ssize(all), [&](std::uint64_t i) {
    std::uint64_t wrong = 0;
    for (const Operand& b : all) wrong += !is_right<L, Operation>(all[i], b);
    return wrong;
  });
}

template <Layout L>
void expect_all_pairs_right() {
  EXPECT_EQ((wrong_among_all_pairs<L, Add>()), 0U);
  EXPECT_EQ((wrong_among_all_pairs<L, Subtract>()), 0U);
  EXPECT_EQ((wrong_among_all_pairs<L, Multiply>()), 0U);
  EXPECT_EQ((wrong_among_all_pairs<L, Divide>()), 0U);
}

TEST(Rounded, EveryPairOfE4m3) { expect_all_pairs_right<spec::e4m3_layout>(); }
TEST(Rounded, EveryPairOfE5m2) { expect_all_pairs_right<spec::e5m2_layout>(); }
TEST(FullRounded, EveryPairOfBf16) { expect_all_pairs_right<spec::bf16_layout>(); }
TEST(FullRounded, EveryPairOfFp16) { expect_all_pairs_right<spec::fp16_layout>(); }

/// Patterns that make hard cases: significands at either end, 3/2 (an odd significand times it is a
/// midpoint), or any.
template <Layout L>
std::uint64_t hard_pattern(std::mt19937_64& random, int biased) {
  const std::uint64_t hidden = std::uint64_t{1} << L.fraction_bits;
  const std::uint64_t choices[] = {random() % 3, hidden - 1 - random() % 3, hidden / 2, random()};
  const std::uint64_t fraction = choices[random() % 4] & (hidden - 1);
  const auto exponent = static_cast<std::uint64_t>(std::max(biased, 0)) << L.fraction_bits;
  const std::uint64_t magnitude = std::min(exponent | fraction, L.largest);
  return magnitude | (random() % 2 == 0 ? 0 : L.sign_bit());
}

template <Layout L>
int any_exponent(std::mt19937_64& random) {
  return static_cast<int>(random() % (1U << L.exponent_bits));
}

/// Half of the second operands put the product, or the quotient, near the smallest subnormal.
template <Layout L, class Operation>
std::uint64_t wrong_among_hard_pairs(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::uint64_t wrong = 0;
  for (int trial = 0; trial < count; ++trial) {
    const int ea = any_exponent<L>(random);
    const int tiny = std::is_same_v<Operation, Divide> ? ea + L.bias() : L.bias() - ea;
    const int eb =
        random() % 2 == 0 ? any_exponent<L>(random) : tiny + static_cast<int>(random() % 16) - 12;
    wrong += !is_right<L, Operation>(spec::operand(L, hard_pattern<L>(random, ea)),
                                     spec::operand(L, hard_pattern<L>(random, eb)));
  }
  return wrong;
}

template <Layout L>
void expect_hard_pairs_right(int count) {
  EXPECT_EQ((wrong_among_hard_pairs<L, Add>(1, count)), 0U) << name_of(L.format);
  EXPECT_EQ((wrong_among_hard_pairs<L, Subtract>(2, count)), 0U) << name_of(L.format);
  EXPECT_EQ((wrong_among_hard_pairs<L, Multiply>(3, count)), 0U) << name_of(L.format);
  EXPECT_EQ((wrong_among_hard_pairs<L, Divide>(4, count)), 0U) << name_of(L.format);
}

TEST(Rounded, HardPairs) {
  expect_hard_pairs_right<spec::tf32_layout>(1000000);
  expect_hard_pairs_right<spec::bf16_layout>(200000);
  expect_hard_pairs_right<spec::fp16_layout>(200000);
}
TEST(FullRounded, HardPairsOfTf32) { expect_hard_pairs_right<spec::tf32_layout>(100000000); }

// Why tf32 works in double: float's own subnormal rounding would come first. 1056 * 993 = 2^20 + 32
// stands above the midpoint of 0 and the smallest tf32 number, and float rounds it to that
// midpoint.
TEST(Rounded, Tf32ProductThroughFloatWouldBeWrong) {
  const float a = 0x420p-80F, b = 0x3e1p-77F;
  EXPECT_EQ(round_to(tf32, a * b), 0);
  EXPECT_EQ((Rounded<tf32>{a} * Rounded<tf32>{b}).value, 0x1p-136F);
}

template <Layout L>
void expect_all_roots_right() {
  std::uint64_t wrong = 0;
  for (const Operand& x : all_operands<L>()) {
    const bool special = !x.is_finite || (x.exact.negative && x.exact.significand != 0);
    const std::uint64_t exact =
        special ? spec::special_pattern(L, std::sqrt(static_cast<double>(x.value)))
                : spec::rounded(L, spec::square_root(x.exact));
    wrong += pattern_of<L>(sqrt(Value<L>{x.value})) != exact;
  }
  EXPECT_EQ(wrong, 0U) << name_of(L.format);
}

TEST(Rounded, EverySquareRoot) {
  expect_all_roots_right<spec::tf32_layout>();
  expect_all_roots_right<spec::bf16_layout>();
  expect_all_roots_right<spec::fp16_layout>();
  expect_all_roots_right<spec::e4m3_layout>();
  expect_all_roots_right<spec::e5m2_layout>();
}

// ---- fma

struct Triple {
  Operand a, b, c;
};

/// Half of the addends stand at a chosen distance from the product: far below it, where they break
/// the product's tie, or p places above, where the product breaks theirs.
template <Layout L>
Triple hard_triple(std::mt19937_64& random) {
  const int ea = any_exponent<L>(random), eb = any_exponent<L>(random);
  const int product = ea + eb - L.bias();
  const int distance = random() % 2 == 0 ? static_cast<int>(random() % 70) - 64
                                         : L.fraction_bits + static_cast<int>(random() % 5) - 1;
  const int ec = random() % 2 == 0 ? any_exponent<L>(random) : product + distance;
  return {spec::operand(L, hard_pattern<L>(random, ea)),
          spec::operand(L, hard_pattern<L>(random, eb)),
          spec::operand(L, hard_pattern<L>(random, ec))};
}

template <Layout L>
std::uint64_t specified_fma(const Triple& t) {
  if (t.a.is_finite && t.b.is_finite && t.c.is_finite)
    return spec::rounded(L, spec::sum(spec::product(t.a.exact, t.b.exact), t.c.exact));
  return spec::special_pattern(L, std::fma(static_cast<double>(t.a.value), t.b.value, t.c.value));
}

template <Layout L>
std::uint64_t got_fma(const Triple& t) {
  return pattern_of<L>(fma(Value<L>{t.a.value}, Value<L>{t.b.value}, Value<L>{t.c.value}));
}

/// The tempting wrong ways: fma in T, rounded again.
template <Layout L, class T>
std::uint64_t twice_rounded_fma(const Triple& t) {
  const T once =
      std::fma(static_cast<T>(t.a.value), static_cast<T>(t.b.value), static_cast<T>(t.c.value));
  return pattern_of<L>(Value<L>::of(once));
}

/// A block is 1000 triples with a seed of their own, so that every machine draws the same ones.
template <Layout L>
std::uint64_t wrong_among_hard_triples(std::int64_t blocks) {
  return spec::sum_in_parallel(blocks, [](std::uint64_t block) {
    std::mt19937_64 random(block);
    std::uint64_t wrong = 0;
    for (int trial = 0; trial < 1000; ++trial) {
      const Triple t = hard_triple<L>(random);
      wrong += got_fma<L>(t) != specified_fma<L>(t);
    }
    return wrong;
  });
}

template <Layout L>
void expect_all_triples_right() {
  const std::vector<Operand> all = all_operands<L>();
  std::uint64_t wrong = 0;
  for (const Operand& a : all)
    for (const Operand& b : all)
      for (const Operand& c : all) wrong += got_fma<L>({a, b, c}) != specified_fma<L>({a, b, c});
  EXPECT_EQ(wrong, 0U) << name_of(L.format);
}

TEST(RoundedFma, EveryTripleOfE4m3) { expect_all_triples_right<spec::e4m3_layout>(); }
TEST(RoundedFma, EveryTripleOfE5m2) { expect_all_triples_right<spec::e5m2_layout>(); }

TEST(RoundedFma, HardTriples) {
  EXPECT_EQ(wrong_among_hard_triples<spec::tf32_layout>(1000), 0U);
  EXPECT_EQ(wrong_among_hard_triples<spec::bf16_layout>(1000), 0U);
  EXPECT_EQ(wrong_among_hard_triples<spec::fp16_layout>(1000), 0U);
}

TEST(FullRoundedFma, HardTriples) {
  EXPECT_EQ(wrong_among_hard_triples<spec::tf32_layout>(100000), 0U);
  EXPECT_EQ(wrong_among_hard_triples<spec::bf16_layout>(100000), 0U);
  EXPECT_EQ(wrong_among_hard_triples<spec::fp16_layout>(100000), 0U);
}

// The triples are hard enough to find both double roundings.
TEST(RoundedFma, HardTriplesFindDoubleRounding) {
  std::mt19937_64 random(6);
  int wrong_through_double = 0, wrong_through_float = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    const Triple t = hard_triple<spec::bf16_layout>(random);
    const std::uint64_t exact = specified_fma<spec::bf16_layout>(t);
    wrong_through_double += twice_rounded_fma<spec::bf16_layout, double>(t) != exact;
    wrong_through_float += twice_rounded_fma<spec::bf16_layout, float>(t) != exact;
  }
  EXPECT_GT(wrong_through_double, 0);
  EXPECT_GT(wrong_through_float, wrong_through_double);
}

/// a b + c in L by MPFR, with L's subnormals; finite operands.
template <Layout L>
std::uint64_t mpfr_fma_pattern(const Triple& t) {
  const mpfr_exp_t emin = mpfr_get_emin();
  mpfr_set_emin(L.quantum() + 1);  // MPFR's significands lie in [1/2, 1)
  mpfr_t a, b, c, r;
  mpfr_inits2(24, a, b, c, nullptr);
  mpfr_init2(r, L.format.digits);
  mpfr_set_flt(a, t.a.value, MPFR_RNDN);
  mpfr_set_flt(b, t.b.value, MPFR_RNDN);
  mpfr_set_flt(c, t.c.value, MPFR_RNDN);
  const int inexact = mpfr_fma(r, a, b, c, MPFR_RNDN);
  mpfr_subnormalize(r, mpfr_check_range(r, inexact, MPFR_RNDN), MPFR_RNDN);
  const double result = mpfr_get_d(r, MPFR_RNDN);
  mpfr_clears(a, b, c, r, nullptr);
  mpfr_set_emin(emin);
  if (std::fabs(result) > spec::value_of(L, L.largest))
    return spec::overflow_pattern(L, result < 0);
  return spec::rounded(L, spec::exact_of(result));
}

template <Layout L>
void expect_specification_agrees_with_mpfr() {
  std::mt19937_64 random(7);
  int compared = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    const Triple t = hard_triple<L>(random);
    if (!t.a.is_finite || !t.b.is_finite || !t.c.is_finite) continue;
    ASSERT_EQ(specified_fma<L>(t), mpfr_fma_pattern<L>(t))
        << name_of(L.format) << ' ' << t.a.value << ' ' << t.b.value << ' ' << t.c.value;
    ++compared;
  }
  EXPECT_GT(compared, 80000);
}

TEST(RoundedFma, SpecificationAgreesWithMpfr) {
  expect_specification_agrees_with_mpfr<spec::tf32_layout>();
  expect_specification_agrees_with_mpfr<spec::bf16_layout>();
  expect_specification_agrees_with_mpfr<spec::fp16_layout>();
  expect_specification_agrees_with_mpfr<spec::e4m3_layout>();
  expect_specification_agrees_with_mpfr<spec::e5m2_layout>();
}

// ---- conversions and selections

// A real constant high + low is rounded once: at a midpoint the sign of low decides.
template <Layout L>
void expect_reals_rounded_once() {
  std::mt19937_64 random(8);
  for (int trial = 0; trial < 10000; ++trial) {
    const std::uint64_t below = random() % L.largest;
    const double low = spec::value_of(L, below), high = spec::value_of(L, below + 1);
    const double middle = low + (high - low) / 2, bit = (high - low) * 0x1p-70;
    EXPECT_EQ(pattern_of<L>(constant<Value<L>>({middle, bit})), below + 1);
    EXPECT_EQ(pattern_of<L>(constant<Value<L>>({middle, -bit})), below);
    EXPECT_EQ(pattern_of<L>(constant<Value<L>>({-middle, -bit})), (below + 1) | L.sign_bit());
    EXPECT_EQ(pattern_of<L>(constant<Value<L>>({middle, 0})), below + below % 2);
    EXPECT_EQ(pattern_of<L>(from<Value<L>>(middle)), below + below % 2);
  }
}

TEST(Rounded, RealsAreRoundedOnce) {
  expect_reals_rounded_once<spec::tf32_layout>();
  expect_reals_rounded_once<spec::bf16_layout>();
  expect_reals_rounded_once<spec::fp16_layout>();
  expect_reals_rounded_once<spec::e4m3_layout>();
  expect_reals_rounded_once<spec::e5m2_layout>();
  EXPECT_EQ(constant<float>({1 + 0x1p-24, 0x1p-80}), 1 + 0x1p-23F);
  EXPECT_EQ(constant<float>({1 + 0x1p-24, -0x1p-80}), 1);
}

template <class T>
void expect_selections() {
  const double inf = std::numeric_limits<double>::infinity();
  const T one = from<T>(1.0), two = from<T>(-2.0), nan = from<T>(inf) - from<T>(inf);
  EXPECT_EQ(to_double(max(one, two)), 1);
  EXPECT_EQ(to_double(min(one, two)), -2);
  EXPECT_EQ(to_double(abs(two)), 2);
  EXPECT_EQ(to_double(-two), 2);
  EXPECT_EQ(to_double(pivot(two)), -2);
  EXPECT_TRUE(is_negative(two));
  EXPECT_FALSE(is_negative(one));
  EXPECT_FALSE(is_negative(-from<T>(0.0)));
  for (const T& result : {max(one, nan), max(nan, one), min(one, nan), min(nan, one), abs(nan)})
    EXPECT_TRUE(std::isnan(to_double(result)));
}

TEST(Rounded, Selections) {
  expect_selections<double>();
  expect_selections<float>();
  expect_selections<Rounded<tf32>>();
  expect_selections<Rounded<bf16>>();
  expect_selections<Rounded<fp16>>();
  expect_selections<Rounded<e4m3>>();
  expect_selections<Rounded<e5m2>>();
}

}  // namespace
}  // namespace opbound
