#include "bounds/judge.hpp"

#include <cmath>
#include <limits>

namespace opbound {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// An interval of the difference exact - anchor.
struct Difference {
  double low, high;
};

/// high - anchor is split without error (two_sum), so what is rounded is relative to the result:
/// three roundings of terms that can cancel only against `low`, itself below 2^-53 |high|.
Difference difference(const Exact& y, double anchor) {
  if (std::isinf(anchor)) return {-anchor, -anchor};
  const double t = y.high - anchor;
  const double part = t - y.high;
  const double error = (y.high - (t - part)) + (-anchor - part);
  const double rest = error + y.low;
  const double d = t + rest;
  const double slack = y.radius + 0x1p-52 * std::fabs(d) + 0x1p-52 * std::fabs(rest);
  const bool is_exact = y.radius == 0 && (t == 0 || rest == 0) && (error == 0 || y.low == 0);
  return is_exact ? Difference{d, d} : Difference{d - slack, d + slack};
}

/// A format's values as consecutive integers, -0 and 0 both 0; what lies beyond the largest comes
/// next.
double ordinal(const Format& f, double x) {
  const bool beyond = !std::isfinite(x);
  const auto bits =
      encode(f, beyond ? f.largest() : std::fabs(x)) + (!beyond                ? 0
                                                        : f.kind == Kind::tf32 ? 1 << 13
                                                                               : 1);
  const double n = static_cast<double>(bits >> (f.kind == Kind::tf32 ? 13 : 0));
  return x < 0 ? -n : n;
}

/// The largest value of f at most x, or the smallest at least x.
double toward(const Format& f, double x, bool up) {
  const double t = truncate_to(f, x);
  if (t == x || (t < x) != up || !std::isfinite(t)) return t;
  const double step = ulp(f, t) * (up ? 1 : -1);
  return round_to(f, t + step);
}

/// The stored values s with RN(s') = s for s' in [y - B, y + B], as real anchors: y - B may reach
/// up to `above`, y + B down to `below`; `closed` where a tie rounds to s.
struct Cell {
  double below, above;
  bool closed;
};

/// Where RN starts to overflow: a tie goes beyond, since the largest significand is odd (even for
/// e4m3, whose tie at 464 stays).
double overflow_threshold(const Format& f) { return f.largest() + ulp(f, f.largest()) / 2; }

Cell cell_of(const Format& f, double s) {
  const double half_up = ulp(f, s) / 2;
  const double inward =
      std::fabs(s) > f.smallest_normal() && std::fabs(s) == power_of_two(std::ilogb(s))
          ? half_up / 2
          : half_up;  // below a power of two the spacing halves
  const bool even = (encode(f, std::fabs(s)) >> (f.kind == Kind::tf32 ? 13 : 0)) % 2 == 0;
  Cell c{s - (s > 0 ? inward : half_up), s + (s < 0 ? inward : half_up), even};
  if (f.overflow == Overflow::saturate && s == f.largest()) c.above = infinite;
  if (f.overflow == Overflow::saturate && s == -f.largest()) c.below = -infinite;
  return c;
}

double acceptable_values(const Exact& y, double bound, const Store& store) {
  if (!(bound < infinite)) return infinite;
  const double from = (y.high - bound) + y.low, to = (y.high + bound) + y.low;
  const Format& f = store.format;
  const double first = store.rounds ? round_to(f, from) : toward(f, from, true);
  const double last = store.rounds ? round_to(f, to) : toward(f, to, false);
  return std::fmax(0, ordinal(f, last) - ordinal(f, first) + 1);
}

/// Both kinds are classes, not numbers: only the same class will do.
Judgement judge_special(const Exact& exact, double got, const Store& store) {
  const bool wants_nan = exact.kind == Exact::Class::nan;
  const bool nan_is_infinity = !store.format.has_infinity();
  bool same =
      wants_nan ? std::isnan(got) : got == exact.high || (nan_is_infinity && std::isnan(got));
  if (!wants_nan && store.format.overflow == Overflow::saturate)
    same = same || got == std::copysign(store.format.largest(), exact.high);
  Judgement j;
  j.verdict = same ? Verdict::within : Verdict::exceeds;
  j.ratio = same ? 0 : infinite;
  j.nonfinite_mismatch = !same;
  j.error_ulp = same ? 0 : infinite;
  return j;
}

/// s is an infinity (or e4m3's NaN in its place) and the exact value a number.
Judgement judge_overflow(const Exact& y, double bound, double got, const Store& store) {
  Judgement j;
  const double sign = y.high < 0 ? -1 : 1;
  const double threshold = overflow_threshold(store.format);
  const Exact flipped{sign * y.high, sign * y.low, y.radius, y.kind};
  const Difference d = difference(flipped, threshold);
  const bool right_side =
      std::isnan(got) ? store.format.overflow == Overflow::to_nan : got * sign > 0;
  // RN(|y|) overflows by itself: infinity is the right answer whatever the bound
  const bool tie_stays =
      store.format.kind == Kind::e4m3;  // 464 is a tie between 448 and 480, goes to 448
  const bool beyond = right_side && (d.low > 0 || (d.low == 0 && !tie_stays));
  if (beyond || (right_side && store.rounds && d.low + bound >= 0 && bound < infinite)) {
    j.verdict = Verdict::within;
    j.ratio = beyond ? 0 : -d.low / bound;
    return j;
  }
  j.ratio = infinite;
  j.error_ulp = infinite;
  j.nonfinite_mismatch = true;
  const bool may_be = right_side && store.rounds && d.high + bound >= 0;
  j.verdict = !(bound < infinite) ? Verdict::vacuous
              : may_be            ? Verdict::undecided
                                  : Verdict::exceeds;
  return j;
}

/// The exact value is a number beyond every double, so every format overflows; how far beyond is
/// not known.
Judgement judge_beyond(const Exact& y, double bound, double got, const Store& store) {
  Judgement j;
  const bool infinity = std::isnan(got) ? store.format.overflow == Overflow::to_nan
                                        : std::isinf(got) && (got > 0) == (y.high > 0);
  const bool saturated = store.format.overflow == Overflow::saturate &&
                         got == std::copysign(store.format.largest(), y.high);
  if (infinity || saturated) {
    j.verdict = Verdict::within;
    return j;
  }
  j.ratio = j.error_ulp = infinite;
  j.nonfinite_mismatch = true;
  j.verdict = bound < infinite ? Verdict::exceeds : Verdict::vacuous;
  return j;
}

/// The smallest L: how far the exact value is outside the cell of s, over the bound.
double ratio_of(double outside, double bound) {
  if (outside <= 0) return 0;
  return bound > 0 ? outside / bound : infinite;
}

}  // namespace

Judgement judge(const Exact& exact, double bound, double gauge, double got, const Store& store) {
  if (exact.kind != Exact::Class::finite && exact.kind != Exact::Class::beyond_double)
    return judge_special(exact, got, store);
  if (exact.kind == Exact::Class::beyond_double) return judge_beyond(exact, bound, got, store);
  Judgement j;
  if (!(exact.radius < infinite)) return j;
  if (!std::isfinite(got)) return judge_overflow(exact, bound, got, store);
  const Cell cell = store.rounds ? cell_of(store.format, got) : Cell{got, got, true};
  const Difference above = difference(exact, cell.above), below = difference(exact, cell.below);
  const bool open = !cell.closed;
  const auto passes = [&](double outside) { return open ? outside < bound : outside <= bound; };
  const auto fails = [&](double outside) { return open ? outside >= bound : outside > bound; };
  j.error_ulp = -difference(exact, got).low / ulp(store.format, exact.high);
  j.ratio = ratio_of(std::fmax(above.low, -below.high), bound);
  j.acceptable = acceptable_values(exact, bound, store);
  if (!(bound < infinite)) {
    j.verdict = Verdict::vacuous;
  } else if (passes(above.high) && passes(-below.low)) {
    j.verdict = bound > gauge && j.acceptable > 1 ? Verdict::vacuous : Verdict::within;
  } else if (fails(above.low) || fails(-below.high)) {
    j.verdict = Verdict::exceeds;
    if (j.ratio <= 1) j.ratio = std::nextafter(1.0, 2.0);  // a tie that goes the other way
  }
  return j;
}

}  // namespace opbound
