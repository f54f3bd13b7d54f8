// The law of bounds/tracked.hpp under attack: for random expressions with operands chosen to break
// it, |value - exact| <= radius, for our own kernel and for any other execution.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/attack_expression.hpp"

namespace opbound {
namespace {

using attack::Expression;
using attack::Operation;
using attack::Random;

/// The largest share of the radius that each operation used, and how many results were known to be
/// large only.
struct Use {
  std::array<double, static_cast<std::size_t>(Operation::count)> largest{};
  int beyond = 0;
};

/// One expression of 3 to 12 operations; false, with a message, where the law is broken.
template <class T, class K>
bool survives(Random& random, Use& all) {
  Expression<T, K> e(random);
  for (int i = attack::whole(random, 1, 3); i > 0; --i) e.input(e.fresh());
  for (int i = attack::whole(random, 3, 12); i > 0; --i) {
    const Operation o = e.step();
    const std::size_t last = e.size() - 1;
    double use = 0;
    const std::string broken = attack::broken_law<T, K>(e.place(last), use);
    double& largest = all.largest[static_cast<std::size_t>(o)];
    largest = std::max(largest, use);
    all.beyond += detail::is_beyond(e.place(last).bounded) ? 1 : 0;
    if (broken.empty()) continue;
    const auto& p = e.place(last);
    ADD_FAILURE() << broken << " at the last place of" << e.text() << "\n value "
                  << e.hex(to_double(p.bounded)) << " other " << e.hex(to_double(p.other))
                  << " exact " << e.hex(to_double(p.exact)) << " radius " << e.hex(p.bounded.radius)
                  << " spread " << e.hex(p.bounded.spread);
    return false;
  }
  return true;
}

void record(const Use& use) {
  for (std::size_t o = 0; o < use.largest.size(); ++o)
    testing::Test::RecordProperty(
        std::string("largest_ratio_") + attack::name_of(static_cast<Operation>(o)),
        std::to_string(use.largest[o]));
}

template <class T, class K>
void attack_with(int expressions, std::uint64_t seed, int bits = 400) {
  Random random(seed);
  Use use{};
  int broken = 0;
  for (int i = 0; i < expressions && broken < 3; ++i) {
    const PrecisionScope scope(bits);
    if constexpr (K::foreign) {
      attack::nudge.way = attack::pick(
          random,
          std::array{attack::Nudge::Way::up, attack::Nudge::Way::down, attack::Nudge::Way::random});
    }
    broken += survives<T, K>(random, use) ? 0 : 1;
  }
  record(use);
  EXPECT_EQ(use.beyond > 0, detail::may_be_beyond<T>);
}

template <class T>
void attack_foreign(int expressions, std::uint64_t seed) {
  attack::nudge.errors = cuda_function_errors;
  const Foreign::Scope declared(cuda_function_errors);
  attack_with<T, Foreign>(expressions, seed);
}

constexpr int quick = 6000;
constexpr int full = 200000;

TEST(OwnBound, HoldsForFloat) { attack_with<float, Own>(quick, 1); }
TEST(OwnBound, HoldsForDouble) { attack_with<double, Own>(quick, 2); }
TEST(OwnBound, HoldsForBf16) { attack_with<Rounded<bf16>, Own>(quick, 3); }
TEST(OwnBound, HoldsForFp16) { attack_with<Rounded<fp16>, Own>(quick, 4); }
TEST(OwnBound, HoldsForDoubleDouble) { attack_with<DoubleDouble, Own>(quick, 5, 700); }

TEST(ForeignBound, HoldsForFloat) { attack_foreign<float>(quick, 6); }
TEST(ForeignBound, HoldsForDouble) { attack_foreign<double>(quick, 7); }
TEST(ForeignBound, HoldsForBf16) { attack_foreign<Rounded<bf16>>(quick, 8); }
TEST(ForeignBound, HoldsForFp16) { attack_foreign<Rounded<fp16>>(quick, 9); }

TEST(FullOwnBound, HoldsForFloat) { attack_with<float, Own>(full, 11); }
TEST(FullOwnBound, HoldsForDouble) { attack_with<double, Own>(full, 12); }
TEST(FullOwnBound, HoldsForBf16) { attack_with<Rounded<bf16>, Own>(full, 13); }
TEST(FullOwnBound, HoldsForFp16) { attack_with<Rounded<fp16>, Own>(full, 14); }
TEST(FullOwnBound, HoldsForDoubleDouble) { attack_with<DoubleDouble, Own>(full, 15, 700); }
TEST(FullForeignBound, HoldsForFloat) { attack_foreign<float>(full, 16); }
TEST(FullForeignBound, HoldsForDouble) { attack_foreign<double>(full, 17); }
TEST(FullForeignBound, HoldsForBf16) { attack_foreign<Rounded<bf16>>(full, 18); }
TEST(FullForeignBound, HoldsForFp16) { attack_foreign<Rounded<fp16>>(full, 19); }

// ---- exactness, infinities, pivots: cases that once broke the law, the smallest of each

constexpr double infinite = detail::infinite;

template <class T, class K = Own>
Tracked<T, K> around(double value, double radius, double spread = 0) {
  auto x = from<Tracked<T, K>>(value);
  x.radius = radius;
  if constexpr (K::foreign) x.spread = spread;
  return x;
}

/// Whatever `facts` calls exact is exact.
template <class T>
void exactness_is_never_claimed_wrongly(std::uint64_t seed) {
  using F = Facts<T>;
  Random random(seed);
  long claimed = 0;
  for (int i = 0; i < 20000; ++i) {
    const PrecisionScope scope(2300);
    Expression<T, Own> e(random);
    e.input(e.fresh());
    const T a = from<T>(e.fresh()), b = from<T>(e.fresh());
    const Mpfr x = attack::exact_value(a), y = attack::exact_value(b);
    const auto check = [&](bool exact, const char* what, const Mpfr& got, const Mpfr& wanted) {
      if (!exact || is_nan(wanted) || mpfr_inf_p(got.get()) != 0) return;
      ++claimed;
      EXPECT_TRUE(mpfr_equal_p(got.get(), wanted.get()) != 0)
          << what << " " << e.hex(to_double(a)) << " " << e.hex(to_double(b));
    };
    using attack::exact_value;
    check(F::exact_sum(a, b, a + b), "+", exact_value(a + b), x + y);
    check(F::exact_product(a, b, a * b), "*", exact_value(a * b), x * y);
    check(F::exact_quotient(a, b, a / b), "/", exact_value(a / b) * y, x);
    if (to_double(a) >= 0)
      check(F::exact_root(a, sqrt(a)), "sqrt", exact_value(sqrt(a)) * exact_value(sqrt(a)), x);
  }
  EXPECT_GT(claimed, 10000);
}

TEST(Exactness, IsNeverClaimedWrongly) {
  exactness_is_never_claimed_wrongly<float>(21);
  exactness_is_never_claimed_wrongly<double>(22);
  exactness_is_never_claimed_wrongly<Rounded<bf16>>(23);
  exactness_is_never_claimed_wrongly<Rounded<fp16>>(24);
}

/// Masked logits: what exact infinities give is known, what an overflow gives is not.
TEST(CertifiedDouble, KnowsExactInfinities) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto of = [](double x) { return from<CertifiedDouble>(x); };
  const CertifiedDouble masked = of(-infinity) - of(3);
  EXPECT_EQ(exact_of(masked).kind, Exact::Class::minus_infinity);
  EXPECT_EQ(exact_of(exp(masked)).high, 0);
  EXPECT_EQ(exact_of(exp(masked)).radius, 0);
  EXPECT_EQ(exact_of(of(infinity) + of(infinity)).kind, Exact::Class::plus_infinity);
  EXPECT_EQ(exact_of(of(infinity) - of(infinity)).radius, infinity);
  EXPECT_EQ(exact_of(exp(of(infinity))).radius, infinity);
  const CertifiedDouble overflowed = of(-1.7e308) - of(1.7e308);
  EXPECT_EQ(exact_of(overflowed).radius, infinity);
  EXPECT_EQ(exact_of(exp(overflowed)).radius, infinity);
  EXPECT_EQ(exact_of(exp(of(-infinity) + overflowed)).radius, infinity);
}

TEST(Exactness, OfDoubleDoubleLooksAtTheLowPart) {
  const CertifiedDouble one_and_more = from<CertifiedDouble>(1.0) + from<CertifiedDouble>(0x1p-60);
  EXPECT_EQ(one_and_more.radius, 0);
  EXPECT_GT(log(one_and_more).radius, 0);
  // dividing by a power of two loses a low part below 2^-1074
  const CertifiedDouble wide = from<CertifiedDouble>(1.0) + from<CertifiedDouble>(0x1p-1000);
  EXPECT_GT((wide / from<CertifiedDouble>(0x1p100)).radius, 0);
  EXPECT_EQ((one_and_more / from<CertifiedDouble>(0x1p100)).radius, 0);
  // 1 + x = 2^-54 although 1 + high(x) = 2^-53: the derivative there is 2^54
  CertifiedDouble below = from<CertifiedDouble>(-1 + 0x1p-53) - from<CertifiedDouble>(0x1p-54);
  below.radius = 0x1p-60;
  EXPECT_GE(log1p(below).radius, 0x1p-60 * 0x1p54);
}

TEST(Radius, IsNotLostToUnderflow) {
  const auto small = around<double>(0x1p-800, 0x1p-1074);
  EXPECT_GT((small / from<Tracked<double>>(1024.0)).radius, 0);
  EXPECT_GT((small * from<Tracked<double>>(0.25)).radius, 0);
  EXPECT_GT(sqrt(around<double>(0x1p20, 0x1p-1074)).radius, 0);
}

TEST(Infinity, IsClaimedOnlyWhereNothingElseCanBe) {
  using F = Tracked<float>;
  const F infinity = from<F>(infinite), two = from<F>(2.0), zero = from<F>(0.0);
  const F unknown = around<float>(1, infinite), either = around<float>(1, 2);
  EXPECT_EQ((infinity + two).radius, 0);
  EXPECT_EQ((infinity * -two).radius, 0);
  EXPECT_EQ((two / infinity).radius, 0);
  EXPECT_EQ((two / zero).radius, 0);
  EXPECT_EQ((infinity + either).radius, 0);
  EXPECT_EQ(fma(two, two, infinity).radius, 0);
  EXPECT_EQ(exp(infinity).radius, 0);
  EXPECT_EQ(log(zero).radius, 0);
  EXPECT_EQ((two / (zero * two)).radius, 0);
  EXPECT_EQ((zero * either).radius, 0x1p-1074);  // a zero, but of which sign?
  for (const F& x :
       {two / (zero * either), rsqrt(zero * either), infinity + unknown, infinity * either,
        infinity / either, either / zero, unknown / infinity, unknown - infinity, zero * unknown,
        fma(infinity, either, two), fma(zero, unknown, two), fma(two, unknown, infinity),
        log(around<float>(0, 1)), from<F>(1e39)})
    EXPECT_EQ(x.radius, infinite) << to_double(x);
  const F nan = infinity - infinity;
  for (const F& x : {nan, infinity * zero, zero / zero, infinity / infinity, nan * unknown,
                     unknown - nan, fma(unknown, two, nan), sqrt(nan)}) {
    EXPECT_TRUE(std::isnan(to_double(x)));
    EXPECT_EQ(x.radius, 0);
  }
}

TEST(Infinity, OfAnotherExecutionMakesZeroTimesItUnknown) {
  using F = Tracked<float, Foreign>;
  const F near_overflow = around<float, Foreign>(3e38, 1e37, 1e37);
  const F sum = near_overflow + near_overflow / from<F>(8.0);
  EXPECT_TRUE(detail::is_beyond(sum));
  EXPECT_EQ((from<F>(0.0) * sum).radius, infinite);
}

TEST(Pivot, KeepsAnOverflow) {
  using F = Tracked<float>;
  const F overflowed = from<F>(3e38) + from<F>(3e38), unknown = around<float>(1, infinite);
  EXPECT_TRUE(detail::is_beyond(pivot(overflowed)));
  EXPECT_EQ(pivot(overflowed + unknown).radius, infinite);
  EXPECT_EQ((overflowed - pivot(overflowed)).radius, infinite);
  EXPECT_EQ(pivot(around<float>(1, 5)).radius, 0);
}

TEST(Branch, IsAllowedOnRoundedInputsAndCertainSigns) {
  EXPECT_FALSE(takes_negative_form(from<Tracked<float>>(-1e-60)));  // -0: either branch will do
  EXPECT_TRUE(is_negative(from<Tracked<Rounded<bf16>>>(-0.1)));
  EXPECT_DEATH(is_negative(from<Tracked<float>>(-1e-60)), "");
  EXPECT_FALSE(takes_negative_form(from<Tracked<Rounded<fp16>>>(1e30)));
  EXPECT_TRUE(is_negative(around<float, Foreign>(-1, 0.3, 0.3)));
  EXPECT_DEATH(is_negative(around<float>(0.5, 0.6)), "");
  EXPECT_DEATH((is_negative(around<float, Foreign>(0.5, 0, 0.6))), "");
}

TEST(Maximum, ByTheWorkingValueWouldBeExceeded) {
  // a is known to 0.25, b exactly; the working values order them the wrong way
  const auto a = around<float>(1.0, 0.25), b = around<float>(1.125, 0);
  const double exact_a = 1.25, exact = std::max(exact_a, 1.125);
  const auto selected = to_double(a) < to_double(b) ? b : a;  // the planted wrong version
  EXPECT_GT(std::fabs(to_double(selected) - exact), selected.radius);
  EXPECT_LE(std::fabs(to_double(max(a, b)) - exact), max(a, b).radius);
  EXPECT_EQ(min(a, b).radius, 0.25);
}

template <class T>
void constants_are_within_their_radius() {
  const PrecisionScope scope(400);
  for (const Real r : {ln2, log2_e, sqrt_half, sqrt_two_over_pi, one_over_sqrt_two_pi,
                       two_over_sqrt_pi, gelu_cubic}) {
    const auto c = constant<Tracked<T>>(r);
    const double use = attack::use_of(attack::exact_value(c.value),
                                      from<Mpfr>(r.high) + from<Mpfr>(r.low), c.radius);
    EXPECT_GE(use, 0);
    EXPECT_LE(c.radius, 2 * Facts<T>::u * r.high);
  }
}
TEST(Constant, IsWithinItsRadius) {
  constants_are_within_their_radius<float>();
  constants_are_within_their_radius<double>();
  constants_are_within_their_radius<Rounded<bf16>>();
  constants_are_within_their_radius<DoubleDouble>();
}

// ---- other executions of whole kernels, with pivots

/// (x - mean) / sqrt(var + eps), centred twice: the first mean is a pivot.
template <class N, class Team>
std::vector<N> recentred(const Team& team, const std::vector<double>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const N count = from<N>(static_cast<double>(n));
  const auto input = [&](std::int64_t i) { return from<N>(x[static_cast<std::size_t>(i)]); };
  const N mean = pivot(team.sum(n, input) / count);
  const auto centred = [&](std::int64_t i) { return input(i) - mean; };
  const N rest = team.sum(n, centred) / count;
  const auto d = [&](std::int64_t i) { return centred(i) - rest; };
  const N variance = team.sum(n, [&](std::int64_t i) { return d(i) * d(i); }) / count;
  const N deviation = sqrt(variance + from<N>(0x1p-20));
  std::vector<N> y(x.size());
  team.map(n, [&](std::int64_t i) { y[static_cast<std::size_t>(i)] = d(i) / deviation; });
  return y;
}

/// log-sum-exp and softmax, the maximum a pivot of the latter.
template <class N, class Team>
std::vector<N> softmax_and_entropy(const Team& team, const std::vector<double>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const auto input = [&](std::int64_t i) { return from<N>(x[static_cast<std::size_t>(i)]); };
  const N top = pivot(team.max(n, input));
  const N s = team.sum(n, [&](std::int64_t i) { return exp(input(i) - top); });
  const N log_s = log(s);
  std::vector<N> y(x.size());
  team.map(n, [&](std::int64_t i) {
    const N d = input(i) - top;
    y[static_cast<std::size_t>(i)] = (exp(d) / s) * (log_s - d);
  });
  return y;
}

/// Rows with mean/sigma up to 1e5, rounded to T.
template <class T>
std::vector<double> offset_row(Random& random) {
  const double digits = Facts<T>::format.digits > 20 ? 5.5 : 1.5;
  const double offset = std::pow(10, digits * attack::share(random));
  std::vector<double> x(static_cast<std::size_t>(attack::whole(random, 1, 40)));
  for (double& v : x) v = to_double(from<T>(offset + 2 * attack::share(random) - 1));
  if (attack::chance(random, 8)) std::fill(x.begin(), x.end(), x[0]);
  return x;
}

/// Largest use of the radius; every element is checked against radius and spread.
template <class T, class Kernel>
double attack_kernel(Kernel kernel, int rows, std::uint64_t seed) {
  Random random(seed);
  double largest = 0;
  attack::nudge.errors = cuda_function_errors;
  const Foreign::Scope declared(cuda_function_errors);
  for (int row = 0; row < rows; ++row) {
    const std::vector<double> x = offset_row<T>(random);
    const PrecisionScope scope(400);
    const auto bound = kernel.template operator()<Tracked<T, Foreign>>(AnyOrderTeam{}, x);
    const auto exact = kernel.template operator()<Mpfr>(HostTeam<1>{}, x);
    for (int execution = 0; execution < 3; ++execution) {
      attack::nudge.way = static_cast<attack::Nudge::Way>(1 + execution);
      const auto got = kernel.template operator()<Perturbed<T>>(attack::RandomTreeTeam{&random}, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double use = 0;
        const std::string broken =
            attack::broken_law<T, Foreign>({bound[i], got[i], exact[i]}, use);
        EXPECT_EQ(broken, "") << "row " << row << " element " << i;
        largest = std::max(largest, use);
        if (!broken.empty()) return largest;
      }
    }
  }
  return largest;
}

template <class T>
void kernels_hold(int rows, std::uint64_t seed) {
  const auto centring = []<class N>(const auto& team, const auto& x) {
    return recentred<N>(team, x);
  };
  const auto entropy = []<class N>(const auto& team, const auto& x) {
    return softmax_and_entropy<N>(team, x);
  };
  testing::Test::RecordProperty("largest_ratio_recentred",
                                std::to_string(attack_kernel<T>(centring, rows, seed)));
  testing::Test::RecordProperty("largest_ratio_entropy",
                                std::to_string(attack_kernel<T>(entropy, rows, seed + 1)));
}

TEST(ForeignKernel, HoldsForFloat) { kernels_hold<float>(300, 31); }
TEST(ForeignKernel, HoldsForBf16) { kernels_hold<Rounded<bf16>>(300, 33); }
TEST(ForeignKernel, HoldsForFp16) { kernels_hold<Rounded<fp16>>(300, 35); }
TEST(ForeignKernel, HoldsForDouble) { kernels_hold<double>(100, 37); }
TEST(FullForeignKernel, Holds) {
  kernels_hold<float>(30000, 41);
  kernels_hold<Rounded<bf16>>(30000, 43);
  kernels_hold<Rounded<fp16>>(30000, 45);
  kernels_hold<double>(5000, 47);
}

TEST(Max, OfACertainNanIsOne) {
  using X = Tracked<float>;
  const X zero(0.0F), nan = zero / zero;
  X rounded(8.5F), unknown(std::nanf(""));
  rounded.radius = 0x1p-8;
  unknown.radius = HUGE_VAL;
  for (const X& x : {max(rounded, nan), min(rounded, nan), max(nan, unknown), max(nan, zero)}) {
    EXPECT_TRUE(std::isnan(x.value));
    EXPECT_EQ(x.radius, 0);
  }
  EXPECT_EQ(max(rounded, unknown).radius, HUGE_VAL);
}

TEST(Max, TakesTheRadiusOfWhatWinsForCertain) {
  const auto low = around<float>(1, 0.5), high = around<float>(3, 0x1p-20);
  EXPECT_EQ(max(low, high).radius, 0x1p-20);
  EXPECT_EQ(min(low, high).radius, 0.5);
  EXPECT_EQ(max(around<float>(1, 2.5), high).radius, 2.5);
  EXPECT_EQ((max(around<float, Foreign>(1, 0.5, 2), around<float, Foreign>(3, 0)).radius), 0.5);
}

// The own bound of a stochastic store is the distance it went; another's may go the other way.

}  // namespace
}  // namespace opbound
