// Rule (A) of bounds/README.md 0.2: is a stored value one that a kernel within its bound could have
// stored?
#pragma once

#include <cmath>
#include <cstdint>

#include "bounds/cell.hpp"
#include "bounds/verdict.hpp"

namespace opbound {

/// How an output is stored. `rounds`: the store is a further rounding, because the output is
/// narrower than the compute format; else the bound contains the last rounding.
struct Store {
  Format format;
  bool rounds;
};

/// One element against its bound.
struct Judgement {
  Verdict verdict = Verdict::undecided;
  /// The smallest L with RN(y - L B) <= s <= RN(y + L B); infinite where no L will do.
  double ratio = 0;
  /// How many stored values would have passed; 1 is as sharp as can be.
  double acceptable = 1;
  /// (s - y) / ulp(y), signed; infinite where only one of both is finite; NaN where nothing is
  /// known of y.
  double error_ulp = 0;
  /// How far error_ulp may be from the true error, which the reference's radius decides.
  double error_doubt_ulp = 0;
  /// NaN or infinity where the accepted interval has none, or the reverse.
  bool nonfinite_mismatch = false;
};

namespace rounding {

/// Does y itself, without any error, round to the infinity s?
OPBOUND_HD inline bool rounds_to(const Exact& y, double s, const Store& store) {
  const Format& f = store.format;
  return std::isinf(s) && Outside(y, cell_of(f, s)).surely_within(overflow_bound(f));
}

/// Is s the number of the format that is nearest to y, wherever y is? Then no bound that any kernel
/// keeps is below |s - y|, however little of y is known beside the bound. Not asked of fp64, the
/// ends of whose cells are no doubles.
OPBOUND_RARE OPBOUND_HD inline bool is_nearest(const Exact& y, double s, const Format& f) {
  return std::isfinite(s) && f.kind != Kind::fp64 && Outside(y, cell_of(f, s)).surely_within(0);
}

OPBOUND_HD inline double acceptable_values(const Exact& y, double bound, const Store& store) {
  if (!(bound < infinite)) return infinite;
  const Format& f = store.format;
#ifdef __CUDA_ARCH__
  // rounded down twice is rounded down once: the same numbers in four instructions
  if (f.kind == Kind::fp32 && !store.rounds && y.low == 0 && std::fabs(y.high) < f.largest() / 2)
    return std::fmax(0.0, ordinal(f, __double2float_rd(__dadd_rd(y.high, bound))) -
                              ordinal(f, __double2float_ru(__dadd_ru(y.high, -bound))) + 1);
#endif
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
OPBOUND_RARE OPBOUND_HD inline Judgement judge_special(const Exact& exact, double bound, double got,
                                                       const Store& store, bool claims_nan) {
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
OPBOUND_RARE OPBOUND_HD inline Judgement judge_beyond(const Exact& y, double bound, double got,
                                                      const Store& store) {
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

OPBOUND_HD inline Judgement judge_unknown() {
  Judgement j;
  j.error_ulp = std::numeric_limits<double>::quiet_NaN();
  j.error_doubt_ulp = infinite;
  return j;
}

/// No rounding of a number gives `got`: NaN, or an infinity of a format that saturates.
OPBOUND_RARE OPBOUND_HD inline Judgement judge_impossible(double bound) {
  Judgement j;
  j.verdict = bound < infinite ? Verdict::exceeds : Verdict::vacuous;
  j.ratio = j.error_ulp = infinite;
  j.nonfinite_mismatch = true;
  return j;
}

/// The smallest L: how far the exact value is outside the cell of s, over the bound; for an open
/// cell every larger L.
OPBOUND_HD inline double ratio_of(const Outside& outside, double bound) {
  if (outside.least() < 0 || (outside.least() == 0 && outside.is_closed())) return 0;
  if (bound > 0) return outside.least() / bound;
  return infinite;
}

}  // namespace rounding

/// Judges the stored value `got` (NaN, infinities allowed) of an element whose exact value is
/// `exact`, with |value before the store - exact| <= bound for every correct kernel.
///
///   within   iff RN(high - B) <= s <= RN(low + B)  for the whole of [low, high]
///   exceeds  iff s < RN(low - B) or s > RN(high + B)
///   else the reference has to be sharper: `undecided`.
///
/// RN(z) <= s is asked as z <= midpoint above s (< where the tie goes to the neighbour), so only
/// differences exact - midpoint are needed, which Exact gives to 100 bits even in fp64.
/// An infinite bound, or one above the gauge that lets more than one value pass, is `vacuous`.
/// `claims_nan`: where NaN is exact nothing else passes, whatever the bound; false where not every
/// kernel of the contract gives NaN, so that nothing is claimed.
OPBOUND_HD inline Judgement judge(const Exact& exact, double bound, double gauge, double got,
                                  const Store& store, bool claims_nan = true) {
  if (exact.kind != Exact::Class::finite && exact.kind != Exact::Class::beyond_double)
    return rounding::judge_special(exact, bound, got, store, claims_nan);
  if (exact.kind == Exact::Class::beyond_double)
    return rounding::judge_beyond(exact, bound, got, store);
  if (!(exact.radius < rounding::infinite)) return rounding::judge_unknown();
  const Format& f = store.format;
  const double s = std::isnan(got) && f.overflow == Overflow::to_nan
                       ? std::copysign(rounding::infinite, exact.high)
                       : got;
  if (std::isnan(s) || (std::isinf(s) && f.overflow == Overflow::saturate))
    return rounding::judge_impossible(bound);
  // Where the bound contains the last rounding, an infinity can only be y's own.
  const bool is_own_infinity = std::isinf(s) && !store.rounds;
  const double reach =
      is_own_infinity && bound < rounding::infinite ? rounding::overflow_bound(f) : bound;
  const bool is_point = !store.rounds && !is_own_infinity;
  const rounding::Difference from = rounding::difference(exact, s);
  const rounding::Outside outside = is_point ? rounding::Outside(exact, s, from)
                                             : rounding::Outside(exact, rounding::cell_of(f, s));
  const bool is_rounded = rounding::rounds_to(exact, s, store);
  Judgement j;
  j.ratio = is_rounded        ? 0
            : is_own_infinity ? rounding::infinite
                              : rounding::ratio_of(outside, reach);
  j.acceptable = rounding::acceptable_values(exact, bound, store);
  if (is_rounded) {
    j.verdict = Verdict::within;  // whatever the bound
  } else if (!(bound < rounding::infinite)) {
    j.verdict = Verdict::vacuous;
  } else if (outside.surely_within(reach)) {
    j.verdict = bound > gauge && j.acceptable > 1 ? Verdict::vacuous : Verdict::within;
  } else if (outside.surely_beyond(reach)) {
    j.verdict = Verdict::exceeds;
    if (j.ratio <= 1) j.ratio = std::nextafter(1.0, 2.0);  // a tie that goes the other way
  } else {
    const bool is_nearest = is_point && rounding::is_nearest(exact, s, f);
    j.verdict = is_nearest ? Verdict::within : Verdict::undecided;
  }
  if (std::isfinite(s)) {
    j.error_ulp = -rounding::in_ulp(f, from.low / 2 + from.high / 2, exact.high);
    // two subnormal numbers is what an Exact near 0 can tell at best
    if (exact.radius > 2 * rounding::tiny)
      j.error_doubt_ulp = rounding::in_ulp(f, exact.radius, exact.high);
  } else if (!is_rounded) {
    j.error_ulp = rounding::infinite;
    j.nonfinite_mismatch = j.verdict != Verdict::within;
  }
  return j;
}

}  // namespace opbound
