#include "bounds/judge.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace opbound {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();
constexpr double tiny = std::numeric_limits<double>::denorm_min();

/// The exact sum of two numbers (Knuth 1969).
struct Pair {
  double sum, rest;
};
Pair two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// An interval of the difference exact - anchor.
struct Difference {
  double low, high;
};

/// high - anchor is split without error, so what is rounded is relative to the result: two
/// roundings of terms that can cancel only against `low`, itself below 2^-53 |high|. They and the
/// roundings here are below 2^-52 of d and rest, and 2^-50 of the slack itself.
Difference difference(const Exact& y, double anchor) {
  if (std::isinf(anchor)) return {-anchor, -anchor};
  const Pair first = two_sum(y.high, -anchor);
  if (!std::isfinite(first.sum))  // beyond the largest double
    return first.sum > 0 ? Difference{largest, infinite} : Difference{-infinite, -largest};
  const Pair rest = two_sum(first.rest, y.low);
  const Pair d = two_sum(first.sum, rest.sum);
  if (y.radius == 0 && rest.rest == 0 && d.rest == 0) return {d.sum, d.sum};
  const double slack =
      (y.radius + 0x1p-52 * (std::fabs(d.sum) + std::fabs(rest.sum))) * (1 + 0x1p-50) + tiny;
  return {d.sum - slack, d.sum + slack};
}

/// exact + bound (or - bound) as a double and the sign of what is left of the sum.
struct Reach {
  double value;
  int rest;
};

/// The last error is below the last place of the one before, so it decides only where that is 0.
Reach reach_of(const Exact& y, double bound) {
  const Pair first = two_sum(y.high, bound);
  if (!std::isfinite(first.sum)) return {first.sum, 0};
  const Pair low = two_sum(first.rest, y.low);
  const Pair all = two_sum(first.sum, low.sum);
  const double rest = all.rest != 0 ? all.rest : low.rest;
  return {all.sum, (rest > 0) - (rest < 0)};
}

/// A format's values as consecutive integers, -0 and 0 both 0; what lies beyond the largest comes
/// next.
double ordinal(const Format& f, double x) {
  const int unused_bits = f.kind == Kind::tf32 ? 13 : 0;
  const bool beyond = std::isinf(x);
  const auto bits = encode(f, beyond ? f.largest() : std::fabs(x)) >> unused_bits;
  const double n = static_cast<double>(bits) + (beyond ? 1 : 0);
  return x < 0 ? -n : n;
}

/// x rounded to nearest; beyond the largest value an infinity even where the format says NaN.
double stored(const Format& f, double x) {
  const double s = round_to(f, x);
  return std::isnan(s) ? std::copysign(infinite, x) : s;
}

/// RN of a reach: rounded to odd first, so that what is left of the sum decides ties.
double stored(const Format& f, const Reach& r) {
  const bool is_odd = std::bit_cast<std::uint64_t>(r.value) % 2 != 0;
  if (r.rest == 0 || is_odd) return stored(f, r.value);
  return stored(f, std::nextafter(r.value, r.rest * infinite));
}

/// The largest value of f at most x, or (up) the smallest at least x.
double toward(const Format& f, const Reach& r, bool up) {
  const bool past = up ? r.rest > 0 : r.rest < 0;
  const double x = past ? std::nextafter(r.value, r.rest * infinite) : r.value;
  const double t = truncate_to(f, x);
  if (t == x || (t < x) != up || !std::isfinite(t)) return t;
  const double next = t + ulp(f, t) * (up ? 1 : -1);
  return std::fabs(next) > f.largest() ? std::copysign(infinite, next) : next;
}

/// The stored values s with RN(s') = s for s' in [y - B, y + B], as real anchors: y - B may reach
/// up to `above`, y + B down to `below`; `closed` where a tie rounds to s.
struct Cell {
  double below, above;
  bool closed;
};

/// Where RN starts to overflow: a tie goes beyond, since the largest significand is odd (even for
/// e4m3, whose tie at 464 stays). fp64's, 2^1024 - 2^970, is no double: it is its largest value,
/// and the bound that reaches it from there is as much smaller.
double overflow_threshold(const Format& f) {
  return f.kind == Kind::fp64 ? largest : f.largest() + ulp(f, f.largest()) / 2;
}
double overflow_bound(const Format& f) { return f.kind == Kind::fp64 ? -0x1p970 : 0; }
bool overflow_tie_stays(const Format& f) { return f.kind == Kind::e4m3; }

Cell cell_of(const Format& f, double s) {
  if (std::isinf(s)) {
    const double threshold = overflow_threshold(f);
    const bool closed = !overflow_tie_stays(f);
    return s > 0 ? Cell{threshold, infinite, closed} : Cell{-infinite, -threshold, closed};
  }
  const double half_up = ulp(f, s) / 2;
  const double inward =
      std::fabs(s) > f.smallest_normal() && std::fabs(s) == power_of_two(std::ilogb(s))
          ? half_up / 2
          : half_up;  // below a power of two the spacing halves
  const bool even = std::fmod(ordinal(f, s), 2) == 0;
  Cell c{s - (s > 0 ? inward : half_up), s + (s < 0 ? inward : half_up), even};
  if (f.overflow == Overflow::saturate && s == f.largest()) c.above = infinite;
  if (f.overflow == Overflow::saturate && s == -f.largest()) c.below = -infinite;
  return c;
}

/// The sign of a sum, exactly: an expansion of non-overlapping numbers of rising magnitude, grown
/// by one number at a time (Shewchuk 1997, theorem 10); its last number has the sum's sign.
int sign_of_sum(std::array<double, 5> terms) {
  double most = 0;
  for (const double t : terms) most = std::fmax(most, std::fabs(t));
  std::array<double, 5> expansion{};
  std::size_t size = 0;
  for (const double t : terms) {
    double q = most > 0x1p1000 ? t / 16 : t;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const Pair p = two_sum(q, expansion[i]);
      q = p.sum;
      if (p.rest != 0) expansion[kept++] = p.rest;
    }
    if (q != 0) expansion[kept++] = q;
    size = kept;
  }
  const double head = size > 0 ? expansion[size - 1] : 0;
  return (head > 0) - (head < 0);
}

/// Where the exact value lies with respect to a cell. Differences with their errors decide nearly
/// everything, exact signs the rest.
class Outside {
 public:
  Outside(const Exact& y, const Cell& cell) : y_(y), cell_(cell) {
    const Difference above = difference(y, cell.above), below = difference(y, cell.below);
    least_ = std::fmax(above.low, -below.high);
    most_ = std::fmax(above.high, -below.low);
  }
  /// How far outside the better end of [low, high] is, or less; negative inside.
  double least() const { return least_; }
  bool is_closed() const { return cell_.closed; }

  /// RN(high - B) <= s <= RN(low + B), B finite.
  bool surely_within(double bound) const {
    if (least_ > bound) return false;
    return most_ < bound || !(overshoot(y_.radius, bound) > (cell_.closed ? 0 : -1));
  }
  /// s < RN(low - B) or s > RN(high + B).
  bool surely_beyond(double bound) const {
    if (most_ < bound) return false;
    return least_ > bound || overshoot(-y_.radius, bound) > (cell_.closed ? 0 : -1);
  }

 private:
  /// The larger sign of (y + radius - B) - above and below - (y - radius + B).
  int overshoot(double radius, double bound) const {
    const int above =
        std::isinf(cell_.above) ? -1 : sign_of_sum({y_.high, y_.low, radius, -bound, -cell_.above});
    const int below = std::isinf(cell_.below)
                          ? -1
                          : sign_of_sum({-y_.high, -y_.low, radius, -bound, cell_.below});
    return std::max(above, below);
  }

  const Exact& y_;
  Cell cell_;
  double least_, most_;
};

/// Does y itself, without any error, round to the infinity s?
bool rounds_to(const Exact& y, double s, const Store& store) {
  const Format& f = store.format;
  return std::isinf(s) && Outside(y, cell_of(f, s)).surely_within(overflow_bound(f));
}

double acceptable_values(const Exact& y, double bound, const Store& store) {
  if (!(bound < infinite)) return infinite;
  const Format& f = store.format;
  const Reach from = reach_of(y, -bound), to = reach_of(y, bound);
  double first = store.rounds ? stored(f, from) : toward(f, from, true);
  double last = store.rounds ? stored(f, to) : toward(f, to, false);
  const bool may_overflow = std::fabs(y.high) >= f.largest() && f.overflow != Overflow::saturate;
  if (!store.rounds && may_overflow) {
    if (rounds_to(y, infinite, store)) last = infinite;
    if (rounds_to(y, -infinite, store)) first = -infinite;
  }
  return std::fmax(0, ordinal(f, last) - ordinal(f, first) + 1);
}

/// Both kinds are classes, not numbers: only the same class will do. Of an infinity nothing is
/// known where the bound is infinite: a partial sum that overflowed may meet it as a NaN.
Judgement judge_special(const Exact& exact, double bound, double got, const Store& store,
                        bool claims_nan) {
  const bool wants_nan = exact.kind == Exact::Class::nan;
  const bool nan_is_infinity = !store.format.has_infinity();
  bool same =
      wants_nan ? std::isnan(got) : got == exact.high || (nan_is_infinity && std::isnan(got));
  if (!wants_nan && store.format.overflow == Overflow::saturate)
    same = same || got == std::copysign(store.format.largest(), exact.high);
  Judgement j;
  const bool is_claimed = (wants_nan && claims_nan) || bound < infinite;
  j.verdict = same ? Verdict::within : is_claimed ? Verdict::exceeds : Verdict::vacuous;
  j.ratio = same ? 0 : infinite;
  j.nonfinite_mismatch = !same;
  j.error_ulp = same ? 0 : infinite;
  return j;
}

/// The exact value is a number beyond every double, so every format overflows; how far beyond is
/// not known. A finite s is too small for certain only if even 2^1024 - 2^970, where doubles begin
/// to overflow, is more than the bound away.
Judgement judge_beyond(const Exact& y, double bound, double got, const Store& store) {
  Judgement j;
  const bool infinity = std::isnan(got) ? store.format.overflow == Overflow::to_nan
                                        : store.format.overflow != Overflow::saturate &&
                                              std::isinf(got) && (got > 0) == (y.high > 0);
  const bool saturated = store.format.overflow == Overflow::saturate &&
                         got == std::copysign(store.format.largest(), y.high);
  if (infinity || saturated) {
    j.verdict = Verdict::within;
    return j;
  }
  j.ratio = j.error_ulp = infinite;
  j.nonfinite_mismatch = true;
  const Exact nearest{y.high, std::copysign(0x1p970, y.high), 0, Exact::Class::finite};
  const Cell cell = store.rounds ? cell_of(store.format, got) : Cell{got, got, true};
  const bool may_be = std::isfinite(got) && !Outside(nearest, cell).surely_beyond(bound);
  j.verdict = !(bound < infinite) ? Verdict::vacuous
              : may_be            ? Verdict::undecided
                                  : Verdict::exceeds;
  return j;
}

Judgement judge_unknown() {
  Judgement j;
  j.error_ulp = std::numeric_limits<double>::quiet_NaN();
  j.is_error_known = false;
  return j;
}

/// No rounding of a number gives `got`: NaN, or an infinity of a format that saturates.
Judgement judge_impossible(double bound) {
  Judgement j;
  j.verdict = bound < infinite ? Verdict::exceeds : Verdict::vacuous;
  j.ratio = j.error_ulp = infinite;
  j.nonfinite_mismatch = true;
  return j;
}

/// The smallest L: how far the exact value is outside the cell of s, over the bound; for an open
/// cell every larger L.
double ratio_of(const Outside& outside, double bound) {
  if (outside.least() < 0 || (outside.least() == 0 && outside.is_closed())) return 0;
  if (bound > 0) return outside.least() / bound;
  return infinite;
}

}  // namespace

Judgement judge(const Exact& exact, double bound, double gauge, double got, const Store& store,
                bool claims_nan) {
  if (exact.kind != Exact::Class::finite && exact.kind != Exact::Class::beyond_double)
    return judge_special(exact, bound, got, store, claims_nan);
  if (exact.kind == Exact::Class::beyond_double) return judge_beyond(exact, bound, got, store);
  if (!(exact.radius < infinite)) return judge_unknown();
  const Format& f = store.format;
  const double s =
      std::isnan(got) && f.overflow == Overflow::to_nan ? std::copysign(infinite, exact.high) : got;
  if (std::isnan(s) || (std::isinf(s) && f.overflow == Overflow::saturate))
    return judge_impossible(bound);
  // Where the bound contains the last rounding, an infinity can only be y's own.
  const bool is_own_infinity = std::isinf(s) && !store.rounds;
  const double reach = is_own_infinity && bound < infinite ? overflow_bound(f) : bound;
  const Outside outside(exact, store.rounds || is_own_infinity ? cell_of(f, s) : Cell{s, s, true});
  const bool is_rounded = rounds_to(exact, s, store);
  Judgement j;
  j.ratio = is_rounded ? 0 : is_own_infinity ? infinite : ratio_of(outside, reach);
  j.acceptable = acceptable_values(exact, bound, store);
  if (is_rounded) {
    j.verdict = Verdict::within;  // whatever the bound
  } else if (!(bound < infinite)) {
    j.verdict = Verdict::vacuous;
  } else if (outside.surely_within(reach)) {
    j.verdict = bound > gauge && j.acceptable > 1 ? Verdict::vacuous : Verdict::within;
  } else if (outside.surely_beyond(reach)) {
    j.verdict = Verdict::exceeds;
    if (j.ratio <= 1) j.ratio = std::nextafter(1.0, 2.0);  // a tie that goes the other way
  }
  if (std::isfinite(s)) {
    const Difference error = difference(exact, s);
    j.error_ulp = -(error.low / 2 + error.high / 2) / ulp(f, exact.high);
    // two subnormal numbers is what an Exact near 0 can tell at best
    j.is_error_known = exact.radius <= std::fmax(0x1p-16 * ulp(f, exact.high), 2 * tiny);
  } else if (!is_rounded) {
    j.error_ulp = infinite;
    j.nonfinite_mismatch = j.verdict != Verdict::within;
  }
  return j;
}

}  // namespace opbound
