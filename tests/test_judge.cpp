// Rule (A): the judge against a slow judge over MPFR, and errors planted one stored value on either
// side of the edge.
#include <gtest/gtest.h>

#include <span>
#include "tests/attack_judge.hpp"
#include "tests/attack_perturbed.hpp"

namespace opbound {
namespace {

using attack::chance;
using attack::Random;
using attack::share;
using attack::SlowJudge;
using attack::whole;

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int bits = 2400;  // sums of doubles are exact

std::vector<Format> formats_with_saturating() {
  std::vector<Format> all(all_formats.begin(), all_formats.end());
  for (const Format& f : {fp16, e4m3, e5m2}) all.push_back(f.saturating());
  return all;
}

Exact number(double high, double low = 0, double radius = 0) {
  return {high, low, radius, Exact::Class::finite};
}

/// The value of f next to s, upwards or downwards; infinities count.
double neighbour(const Format& f, double s, int direction) {
  if (std::isinf(s)) return s * direction > 0 ? s : std::copysign(f.largest(), s);
  if (f.kind == Kind::fp64) return std::nextafter(s, direction * infinite);
  const double step = ulp(f, s);
  for (const double part : {0.25, 0.5, 1.0}) {  // below a power of two the spacing halves
    const double t = truncate_to(f, s + direction * part * step);
    if (t != s && round_to(f, s + direction * part * step) == s + direction * part * step)
      return s + direction * part * step;
  }
  return f.overflow == Overflow::saturate ? s : direction * infinite;
}

/// A value of f: anywhere in its range, a power of two, 0, subnormal, near overflow.
double some_value(Random& random, const Format& f) {
  const double sign = chance(random, 2) ? 1 : -1;
  const int least = f.exponent_min - f.digits + 1;
  const double significand = 1 + share(random);
  const auto rounded = [&](double x) {
    const double s = round_to(f, x);
    return std::isfinite(s) ? s : std::copysign(f.largest(), x);
  };
  switch (whole(random, 0, 6)) {
    case 0:
      return sign * std::ldexp(1.0, whole(random, least, f.exponent_max));
    case 1:
      return rounded(sign * std::ldexp(significand, least + whole(random, 0, f.digits)));
    case 2: {
      double s = sign * f.largest();
      for (int steps = whole(random, 0, 2); steps > 0; --steps) s = neighbour(f, s, s > 0 ? -1 : 1);
      return s;
    }
    case 3:
      return 0;
    default:
      return rounded(sign * std::ldexp(significand, whole(random, -6, 6)));
  }
}

/// An exact value near a stored one: at it, at the tie with a neighbour, or anywhere about;
/// a little more or less in the low part.
Exact some_exact(Random& random, const Format& f, double s) {
  const double step = ulp(f, s);
  double y = s + step * whole(random, -6, 6) / 4;  // values, ties, and their middles
  if (chance(random, 3)) y += step * (share(random) - 0.5);
  if (!std::isfinite(y)) y = s;
  double low = 0;
  if (!chance(random, 3)) low = (share(random) - 0.5) * 0.9 * ulp(fp64, y);
  if (chance(random, 4)) low = std::ldexp(low, -whole(random, 1, 40));
  const double radius =
      chance(random, 2) ? 0 : step * std::ldexp(share(random), -whole(random, 0, 60));
  return number(y, low, radius);
}

double some_bound(Random& random, const Format& f, double s) {
  const double step = ulp(f, s);
  switch (whole(random, 0, 5)) {
    case 0:
      return 0;
    case 1:
      return step * whole(random, 1, 8) / 4;
    case 2:
      return step * std::ldexp(share(random), whole(random, 0, 12));
    case 3:
      return std::min(f.largest(), 1e300) * share(random) * 2;
    default:
      return step * share(random);
  }
}

/// A stored value to judge: near s, or an end of what the bound admits and its neighbours.
double some_stored(Random& random, const Format& f, double s, const Exact& y, double bound) {
  const double end = y.high + (chance(random, 2) ? bound : -bound);
  double got = chance(random, 3) ? s : round_to(f, end);
  if (std::isnan(got)) got = std::copysign(infinite, end);
  if (std::isinf(got) && f.overflow == Overflow::saturate) got = std::copysign(f.largest(), got);
  for (int steps = whole(random, 0, 2); steps > 0; --steps)
    got = neighbour(f, got, chance(random, 2) ? 1 : -1);
  return chance(random, 50) ? std::copysign(infinite, got) : got;
}

void compare_with_slow_judge(int cases, std::uint64_t seed) {
  Random random(seed);
  const std::vector<Format> formats = formats_with_saturating();
  const PrecisionScope scope(bits);
  std::array<long, 6> seen{};
  for (int i = 0; i < cases; ++i) {
    const Format f = attack::pick(random, formats);
    const Store store{f, f.kind != Kind::fp64 && !chance(random, 4)};
    const double s = some_value(random, f);
    const Exact y = some_exact(random, f, s);
    const double bound = some_bound(random, f, s);
    const double got = some_stored(random, f, s, y, bound);
    const bool has_nan = f.overflow == Overflow::to_nan && std::isinf(got);
    const Judgement j = judge(y, bound, infinite, has_nan ? not_a_number : got, store);
    Verdict wanted = SlowJudge(y, store).verdict(bound, got);
    if (has_nan) wanted = std::max(wanted, SlowJudge(y, store).verdict(bound, -got));
    if (std::isinf(got) && f.overflow == Overflow::saturate) wanted = Verdict::exceeds;
    ++seen[static_cast<std::size_t>(wanted)];
    ASSERT_EQ(j.verdict, wanted) << std::hexfloat << name_of(f) << (store.rounds ? " rounds" : "")
                                 << " y " << y.high << " + " << y.low << " +- " << y.radius
                                 << " bound " << bound << " got " << got << ": "
                                 << name_of(j.verdict) << ", should be " << name_of(wanted);
    if (j.verdict == Verdict::within) {
      EXPECT_LE(j.ratio, 1);
    }
    if (j.verdict == Verdict::exceeds) {
      EXPECT_GT(j.ratio, 1);
    }
  }
  for (const Verdict v : {Verdict::within, Verdict::exceeds, Verdict::undecided})
    EXPECT_GT(seen[static_cast<std::size_t>(v)], cases / 100) << name_of(v);
}

TEST(Judge, AgreesWithSlowJudge) { compare_with_slow_judge(100000, 1); }
TEST(FullJudge, AgreesWithSlowJudge) { compare_with_slow_judge(5000000, 2); }

/// The ratio is the smallest L: the rule holds a little above it and not a little below.
TEST(Judge, RatioIsTheSmallestFactor) {
  Random random(3);
  const PrecisionScope scope(bits);
  for (int i = 0; i < 20000; ++i) {
    const Format f = attack::pick(random, all_formats);
    const Store store{f, f.kind != Kind::fp64 && !chance(random, 4)};
    const double s = some_value(random, f);
    Exact y = some_exact(random, f, s);
    y.radius = 0;
    const double bound = some_bound(random, f, s);
    const double got = some_stored(random, f, s, y, bound);
    if (std::isinf(got)) continue;
    const Judgement j = judge(y, bound, infinite, got, store);
    const SlowJudge slow(y, store);
    const auto holds = [&](double factor) {
      return slow.verdict(from<Mpfr>(factor) * from<Mpfr>(bound), got) == Verdict::within;
    };
    SCOPED_TRACE(testing::Message()
                 << std::hexfloat << name_of(f) << (store.rounds ? " rounds" : "") << " y "
                 << y.high << " + " << y.low << " bound " << bound << " got " << got << " ratio "
                 << j.ratio);
    if (std::isinf(j.ratio)) {
      EXPECT_TRUE(bound < 1e-280 || !holds(1e300));
    } else {
      EXPECT_TRUE(holds(j.ratio * (1 + 0x1p-40) + 0x1p-1000));
      if (j.ratio > 0x1p-1000) {
        EXPECT_FALSE(holds(j.ratio * (1 - 0x1p-40)));
      }
    }
  }
}

/// `acceptable` counts by arithmetic what can be counted one by one.
void compare_acceptable(std::span<const Format> formats, int cases, std::uint64_t seed) {
  Random random(seed);
  const PrecisionScope scope(bits);
  for (const Format& f : formats) {
    const std::vector<double> values = attack::all_values(f);
    for (int i = 0; i < cases; ++i) {
      const Store store{f, !chance(random, 3)};
      const double s = some_value(random, f);
      Exact y = some_exact(random, f, s);
      y.radius = 0;
      const double bound = some_bound(random, f, s);
      const SlowJudge slow(y, store);
      const auto passes = [&](double v) { return slow.verdict(bound, v) == Verdict::within; };
      const auto count = std::count_if(values.begin(), values.end(), passes);
      EXPECT_EQ(judge(y, bound, infinite, s, store).acceptable, static_cast<double>(count))
          << std::hexfloat << name_of(f) << (store.rounds ? " rounds" : "") << " y " << y.high
          << " + " << y.low << " bound " << bound;
    }
  }
}
TEST(Judge, CountsAcceptableValuesOf8Bits) {
  compare_acceptable(std::array{e4m3, e5m2, e4m3.saturating(), e5m2.saturating()}, 400, 4);
}
TEST(Judge, CountsAcceptableValuesOf16Bits) { compare_acceptable(std::array{fp16, bf16}, 4, 5); }
TEST(FullJudge, CountsAcceptableValues) {
  compare_acceptable(std::array{e4m3, e5m2, e4m3.saturating(), e5m2.saturating()}, 10000, 6);
  compare_acceptable(std::array{fp16, bf16, fp16.saturating()}, 200, 7);
}

// ---- planted: one stored value inside and outside the edge of what a bound admits

struct Edge {
  Store store;
  Exact y;
  double bound;
};

/// The largest (or smallest) value that rule (A) admits passes, the one beyond it does not.
void check_edge(const Edge& e, int direction) {
  const PrecisionScope scope(bits);
  const SlowJudge slow(e.y, e.store);
  const Format& f = e.store.format;
  const auto passes = [&](double s) { return slow.verdict(e.bound, s) == Verdict::within; };
  double s = round_to(f, e.y.high + direction * e.bound);
  if (std::isnan(s)) s = std::copysign(infinite, e.y.high + direction * e.bound);
  for (int i = 0; i < 3 && !passes(s); ++i) s = neighbour(f, s, -direction);
  while (passes(s) && neighbour(f, s, direction) != s && passes(neighbour(f, s, direction)))
    s = neighbour(f, s, direction);
  if (!passes(s)) return;  // an interval between two values admits none
  const double outside = neighbour(f, s, direction);
  const auto given = [&](double v) {
    return std::isinf(v) && !f.has_infinity() ? not_a_number : v;
  };
  SCOPED_TRACE(testing::Message() << std::hexfloat << name_of(f)
                                  << (e.store.rounds ? " rounds" : "") << " y " << e.y.high << " + "
                                  << e.y.low << " bound " << e.bound << " edge " << s);
  EXPECT_EQ(judge(e.y, e.bound, infinite, given(s), e.store).verdict, Verdict::within);
  if (outside == s) return;  // nothing lies beyond an infinity, or a saturated value
  const Judgement j = judge(e.y, e.bound, infinite, given(outside), e.store);
  EXPECT_EQ(j.verdict, Verdict::exceeds);
  EXPECT_GT(j.ratio, 1);
}

TEST(Judge, FindsTheEdgeInEveryFormat) {
  for (const Format& f : formats_with_saturating()) {
    const double least = f.smallest_subnormal(), normal = f.smallest_normal();
    for (const bool rounds : {false, true}) {
      if (rounds && f.kind == Kind::fp64) continue;
      const Store store{f, rounds};
      for (const double y : {0.0, least, 3 * least, normal, normal - least, 1.0, 2.0, 1.5, -1.0,
                             f.largest(), -f.largest(), f.largest() - ulp(f, f.largest())}) {
        const double step = ulp(f, y);
        for (const double part : {0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 7.0}) {
          if (part * step == 0 && part != 0) continue;
          for (const double low : {0.0, 0x1p-60 * step, -0x1p-60 * step})
            for (const int direction : {1, -1})
              check_edge({store, number(y, low), part * step}, direction);
          if (f.kind != Kind::fp64)
            for (const double at : {y + step / 2, y - step / 4})
              check_edge({store, number(at), part * step}, 1);
        }
      }
    }
  }
}

Verdict verdict(double y, double bound, double got, const Format& f, bool rounds = true,
                double gauge = infinite) {
  return judge(number(y), bound, gauge, got, {f, rounds}).verdict;
}

TEST(Judge, TiesGoToTheEvenNeighbour) {
  const double up = 1 + 0x1p-10, tie = 1 + 0x1p-11, next_tie = 1 + 3 * 0x1p-11;
  EXPECT_EQ(verdict(tie, 0, 1, fp16), Verdict::within);
  EXPECT_EQ(verdict(tie, 0, up, fp16), Verdict::exceeds);
  EXPECT_EQ(verdict(next_tie, 0, up, fp16), Verdict::exceeds);
  EXPECT_EQ(verdict(next_tie, 0, 1 + 0x1p-9, fp16), Verdict::within);
  EXPECT_EQ(verdict(tie, 0x1p-60, up, fp16), Verdict::within);
  const Judgement odd = judge(number(tie), 0, infinite, up, {fp16, true});
  EXPECT_EQ(odd.ratio, infinite);  // B = 0: no L will do
  EXPECT_EQ(judge(number(tie), 1e-9, infinite, up, {fp16, true}).ratio, 0);
  EXPECT_EQ(judge(number(1), 0x1p-11, infinite, up, {fp16, true}).verdict, Verdict::exceeds);
  EXPECT_GT(judge(number(1), 0x1p-11, infinite, up, {fp16, true}).ratio, 1);
}

TEST(Judge, OverflowHasItsOwnEdge) {
  EXPECT_EQ(verdict(65519, 0, 65504, fp16), Verdict::within);
  EXPECT_EQ(verdict(65519, 0, infinite, fp16), Verdict::exceeds);
  EXPECT_EQ(verdict(65520, 0, infinite, fp16), Verdict::within);
  EXPECT_EQ(verdict(65519, 1, infinite, fp16), Verdict::within);
  EXPECT_EQ(verdict(65520, 0, 65504, fp16), Verdict::exceeds);
  EXPECT_EQ(verdict(65521, 2, 65504, fp16), Verdict::within);
  EXPECT_EQ(verdict(65520, 1, 65504, fp16.saturating()), Verdict::within);
  EXPECT_EQ(verdict(1e9, 0, 65504, fp16.saturating()), Verdict::within);
  EXPECT_EQ(verdict(1e9, 0, infinite, fp16.saturating()), Verdict::exceeds);
  EXPECT_EQ(verdict(464, 0, 448, e4m3), Verdict::within);  // this tie stays
  EXPECT_EQ(verdict(464, 0, not_a_number, e4m3), Verdict::exceeds);
  EXPECT_EQ(verdict(444, 20, not_a_number, e4m3), Verdict::exceeds);
  EXPECT_EQ(verdict(444, 20.5, not_a_number, e4m3), Verdict::within);
  EXPECT_EQ(verdict(464.5, 0, not_a_number, e4m3), Verdict::within);
  EXPECT_EQ(verdict(-464.5, 0, not_a_number, e4m3), Verdict::within);
  EXPECT_EQ(verdict(500, 0, 448, e4m3.saturating()), Verdict::within);
  EXPECT_EQ(verdict(500, 0, not_a_number, e4m3.saturating()), Verdict::exceeds);
  // a bound that reaches over 0 admits the infinity of the other sign
  EXPECT_EQ(verdict(1, 1e6, -infinite, fp16), Verdict::within);
  EXPECT_EQ(verdict(1, 60000, -infinite, fp16), Verdict::exceeds);
  EXPECT_EQ(verdict(1, 1e6, -infinite, fp16, true, 2), Verdict::vacuous);
  // where the bound contains the last rounding, infinity is right only beyond the format
  EXPECT_EQ(verdict(65519, 32, infinite, fp16, false), Verdict::exceeds);
  EXPECT_EQ(verdict(65520, 32, infinite, fp16, false), Verdict::within);
  EXPECT_EQ(verdict(-1.7e308, 1e290, 1.7e308, fp64, false), Verdict::exceeds);
}

TEST(Judge, ZeroAndInfiniteBounds) {
  EXPECT_EQ(verdict(0, 0, 0, fp32), Verdict::within);
  EXPECT_EQ(verdict(0, 0, -0.0, fp32), Verdict::within);
  EXPECT_EQ(verdict(0, 0, 0x1p-149, fp32), Verdict::exceeds);
  EXPECT_EQ(judge(number(1), 0, 1, 1, {fp32, false}).ratio, 0);
  EXPECT_EQ(judge(number(1), 0, 1, 2, {fp32, false}).ratio, infinite);
  EXPECT_EQ(verdict(1, infinite, 1, fp32), Verdict::vacuous);
  EXPECT_EQ(verdict(1, infinite, not_a_number, fp32), Verdict::vacuous);
  EXPECT_EQ(verdict(1, 1, not_a_number, fp32), Verdict::exceeds);
  EXPECT_EQ(verdict(1, 3, 1, fp32, true, 2), Verdict::vacuous);
  // above the gauge, but only one value passes: the store says it all
  EXPECT_EQ(verdict(0x1p-140, 0x1p-135, 0, fp16, true, 0x1p-140), Verdict::within);
}

TEST(Judge, ClassesOfTheExactValue) {
  using enum Exact::Class;
  const auto of = [](Exact::Class kind, double high, double got, const Format& f) {
    return judge({high, 0, 0, kind}, 1, 1, got, {f, f.kind != Kind::fp64}).verdict;
  };
  EXPECT_EQ(of(Exact::Class::nan, not_a_number, not_a_number, fp32), Verdict::within);
  EXPECT_EQ(of(Exact::Class::nan, not_a_number, 1, fp32), Verdict::exceeds);
  EXPECT_EQ(of(Exact::Class::nan, not_a_number, infinite, fp32), Verdict::exceeds);
  EXPECT_EQ(of(plus_infinity, infinite, infinite, fp32), Verdict::within);
  EXPECT_EQ(of(plus_infinity, infinite, -infinite, fp32), Verdict::exceeds);
  EXPECT_EQ(of(plus_infinity, infinite, 3e38, fp32), Verdict::exceeds);
  EXPECT_EQ(of(minus_infinity, -infinite, not_a_number, e4m3), Verdict::within);
  EXPECT_EQ(of(minus_infinity, -infinite, -448, e4m3.saturating()), Verdict::within);
  constexpr double most = std::numeric_limits<double>::max();
  EXPECT_EQ(of(beyond_double, most, infinite, fp64), Verdict::within);
  EXPECT_EQ(of(beyond_double, -most, infinite, fp64), Verdict::exceeds);
  EXPECT_EQ(of(beyond_double, most, most, fp64), Verdict::exceeds);  // B = 1 is far too small
  EXPECT_EQ(of(beyond_double, most, 57344, e5m2.saturating()), Verdict::within);
  // a bound of an ulp admits the largest double, if the value is not far beyond
  const Exact beyond{most, 0, infinite, beyond_double};
  EXPECT_EQ(judge(beyond, 0x1p971, most, most, {fp64, false}).verdict, Verdict::undecided);
  EXPECT_EQ(judge(beyond, 0x1p969, most, most, {fp64, false}).verdict, Verdict::exceeds);
  EXPECT_EQ(judge(beyond, 0x1p971, most, 1, {fp64, false}).verdict, Verdict::exceeds);
}

TEST(Judge, IsUndecidedOnlyWhereTheEnclosureStraddles) {
  const Store store{fp16, true};
  const double tie = 1 + 0x1p-11;
  EXPECT_EQ(judge(number(tie, 0, 1e-9), 0, 1, 1, store).verdict, Verdict::undecided);
  EXPECT_EQ(judge(number(tie, -2e-9, 1e-9), 0, 1, 1, store).verdict, Verdict::within);
  EXPECT_EQ(judge(number(tie, 2e-9, 1e-9), 0, 1, 1, store).verdict, Verdict::exceeds);
  EXPECT_EQ(judge(number(1, 0, infinite), 1, 1, 1, store).verdict, Verdict::undecided);
  // an error equal to its bound, in more digits than a double holds
  const Store fine{fp64, false};
  EXPECT_EQ(judge(number(1 + 0x1p-52, 0x1p-80), 0x1p-52, 1, 1, fine).verdict, Verdict::exceeds);
  EXPECT_EQ(judge(number(1 + 0x1p-52, -0x1p-80), 0x1p-52, 1, 1, fine).verdict, Verdict::within);
  EXPECT_EQ(judge(number(0.7), 1e300, 1, -1e300, fine).verdict, Verdict::exceeds);
}

}  // namespace
}  // namespace opbound
