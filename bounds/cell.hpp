// Which real numbers round to a stored value, and where an exact value lies with respect to them:
// the arithmetic of rule (A), for the host and the device.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/format.hpp"
#include "reference/exact.hpp"

namespace opbound::rounding {

inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr double largest = std::numeric_limits<double>::max();
inline constexpr double tiny = std::numeric_limits<double>::denorm_min();

/// The exact sum of two numbers (Knuth 1969).
struct Pair {
  double sum, rest;
};
OPBOUND_HD inline Pair two_sum(double a, double b) {
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
OPBOUND_HD inline Difference difference(const Exact& y, double anchor) {
  if (std::isinf(anchor)) return {-anchor, -anchor};
  const Pair first = two_sum(y.high, -anchor);
  if (!std::isfinite(first.sum))  // beyond the largest double
    return first.sum > 0 ? Difference{largest, infinite} : Difference{-infinite, -largest};
  const bool is_double = y.low == 0;  // then first is all there is
  const Pair rest = is_double ? Pair{first.rest, 0} : two_sum(first.rest, y.low);
  const Pair d = is_double ? first : two_sum(first.sum, rest.sum);
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
OPBOUND_HD inline Reach reach_of(const Exact& y, double bound) {
  const Pair first = two_sum(y.high, bound);
  if (!std::isfinite(first.sum)) return {first.sum, 0};
  if (y.low == 0) return {first.sum, (first.rest > 0) - (first.rest < 0)};
  const Pair low = two_sum(first.rest, y.low);
  const Pair all = two_sum(first.sum, low.sum);
  const double rest = all.rest != 0 ? all.rest : low.rest;
  return {all.sum, (rest > 0) - (rest < 0)};
}

/// A format's values of one sign as consecutive integers from 0; what lies beyond the largest comes
/// next.
OPBOUND_HD inline std::int64_t magnitude_ordinal(const Format& f, double x) {
  const int unused_bits = f.kind == Kind::tf32 ? 13 : 0;
  const bool beyond = std::isinf(x);
  const auto bits = encode(f, beyond ? f.largest() : std::fabs(x)) >> unused_bits;
  return static_cast<std::int64_t>(bits) + (beyond ? 1 : 0);
}

/// All values of a format as consecutive integers, -0 and 0 both 0.
OPBOUND_HD inline double ordinal(const Format& f, double x) {
  const auto n = static_cast<double>(magnitude_ordinal(f, x));
  return x < 0 ? -n : n;
}

/// e / ulp(x), which is a power of two: exact but for underflow.
OPBOUND_HD inline double in_ulp(const Format& f, double e, double x) {
  const int q = detail::quantum_exponent(f, x);
  return q > -1000 ? e * power_of_two(-q) : e / power_of_two(q);
}

OPBOUND_HD inline bool is_power_of_two(double x) {
  return std::bit_cast<std::uint64_t>(x) << 12 == 0;
}

/// x rounded to nearest; beyond the largest value an infinity even where the format says NaN.
OPBOUND_HD inline double stored(const Format& f, double x) {
  const double s = round_to(f, x);
  return std::isnan(s) ? std::copysign(infinite, x) : s;
}

/// The double next to a finite x, above it or below.
OPBOUND_HD inline double next_to(double x, bool above) {
  if (x == 0) return above ? tiny : -tiny;
  const std::uint64_t step = (x > 0) == above ? 1ULL : ~0ULL;  // a magnitude's bits count upwards
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) + step);
}

/// RN of a reach: rounded to odd first, so that what is left of the sum decides ties.
OPBOUND_HD inline double stored(const Format& f, const Reach& r) {
  const bool is_odd = std::bit_cast<std::uint64_t>(r.value) % 2 != 0;
  return stored(f, r.rest == 0 || is_odd ? r.value : next_to(r.value, r.rest > 0));
}

/// The largest value of f at most x, or (up) the smallest at least x.
OPBOUND_HD inline double toward(const Format& f, const Reach& r, bool up) {
  const bool past = up ? r.rest > 0 : r.rest < 0;
  if (f.kind == Kind::fp32) {
    const auto t = static_cast<float>(r.value);
    if (past ? t != r.value && (t > r.value) == up : up ? t >= r.value : t <= r.value) return t;
    if (t == 0) return up ? f.smallest_subnormal() : -f.smallest_subnormal();
    const std::uint32_t step = (t > 0) == up ? 1U : ~0U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(t) + step);
  }
  const double x = past ? next_to(r.value, up) : r.value;
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
OPBOUND_HD inline double overflow_threshold(const Format& f) {
  return f.kind == Kind::fp64 ? largest : f.largest() + ulp(f, f.largest()) / 2;
}
OPBOUND_HD inline double overflow_bound(const Format& f) {
  return f.kind == Kind::fp64 ? -0x1p970 : 0;
}
OPBOUND_HD inline bool overflow_tie_stays(const Format& f) { return f.kind == Kind::e4m3; }

OPBOUND_HD inline Cell cell_of(const Format& f, double s) {
  if (std::isinf(s)) {
    const double threshold = overflow_threshold(f);
    const bool closed = !overflow_tie_stays(f);
    return s > 0 ? Cell{threshold, infinite, closed} : Cell{-infinite, -threshold, closed};
  }
  const double half_up = ulp(f, s) / 2;
  const double inward = std::fabs(s) > f.smallest_normal() && is_power_of_two(s)
                            ? half_up / 2
                            : half_up;  // below a power of two the spacing halves
  const bool even = magnitude_ordinal(f, s) % 2 == 0;
  Cell c{s - (s > 0 ? inward : half_up), s + (s < 0 ? inward : half_up), even};
  if (f.overflow == Overflow::saturate && s == f.largest()) c.above = infinite;
  if (f.overflow == Overflow::saturate && s == -f.largest()) c.below = -infinite;
  return c;
}

/// The sign of a sum, exactly: an expansion of non-overlapping numbers of rising magnitude, grown
/// by one number at a time (Shewchuk 1997, theorem 10); its last number has the sum's sign.
OPBOUND_RARE OPBOUND_HD inline int sign_of_sum(std::array<double, 5> terms) {
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
  OPBOUND_HD Outside(const Exact& y, const Cell& cell) : y_(y), cell_(cell) {
    const Difference above = difference(y, cell.above), below = difference(y, cell.below);
    least_ = std::fmax(above.low, -below.high);
    most_ = std::fmax(above.high, -below.low);
  }
  /// Of the cell that is the point s alone; `from` is difference(y, s).
  OPBOUND_HD Outside(const Exact& y, double s, const Difference& from)
      : y_(y),
        cell_{s, s, true},
        least_(std::fmax(from.low, -from.high)),
        most_(std::fmax(from.high, -from.low)) {}
  /// How far outside the better end of [low, high] is, or less; negative inside.
  OPBOUND_HD double least() const { return least_; }
  OPBOUND_HD bool is_closed() const { return cell_.closed; }

  /// RN(high - B) <= s <= RN(low + B), B finite.
  OPBOUND_HD bool surely_within(double bound) const {
    if (least_ > bound) return false;
    return most_ < bound || !(overshoot(y_.radius, bound) > (cell_.closed ? 0 : -1));
  }
  /// s < RN(low - B) or s > RN(high + B).
  OPBOUND_HD bool surely_beyond(double bound) const {
    if (most_ < bound) return false;
    return least_ > bound || overshoot(-y_.radius, bound) > (cell_.closed ? 0 : -1);
  }

 private:
  /// The larger sign of (y + radius - B) - above and below - (y - radius + B).
  OPBOUND_HD int overshoot(double radius, double bound) const {
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

}  // namespace opbound::rounding
