// Rule (A) written down again, slowly and by other means: MPFR numbers, rounding by counting
// quanta, verdicts by comparing what is rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bounds/judge.hpp"
#include "reference/mpfr.hpp"

namespace opbound::attack {

/// z rounded to nearest, ties to even, as if exponents had no upper end; then, beyond the largest
/// value, what the format says, an infinity standing for NaN.
inline double slowly_rounded(const Format& f, const Mpfr& z) {
  if (mpfr_inf_p(z.get()) != 0) {
    const double sign = mpfr_sgn(z.get());
    return sign * (f.overflow == Overflow::saturate ? f.largest() : HUGE_VAL);
  }
  if (mpfr_zero_p(z.get()) != 0) return 0;
  const long exponent = std::max<long>(mpfr_get_exp(z.get()) - 1, f.exponent_min);
  const long quantum = exponent - f.digits + 1;
  Mpfr count = z;
  mpfr_mul_2si(count.get(), count.get(), -quantum, MPFR_RNDN);
  mpfr_rint(count.get(), count.get(), MPFR_RNDN);  // ties to even
  mpfr_mul_2si(count.get(), count.get(), quantum, MPFR_RNDN);
  if (mpfr_cmp_d(abs(count).get(), f.largest()) <= 0) return to_double(count);
  return mpfr_sgn(z.get()) * (f.overflow == Overflow::saturate ? f.largest() : HUGE_VAL);
}

/// [low, high] of an Exact, and the rule's verdict for a bound.
struct SlowJudge {
  Mpfr low, high;
  Store store;

  SlowJudge(const Exact& e, const Store& s) : store(s) {
    const Mpfr middle = from<Mpfr>(e.high) + from<Mpfr>(e.low);
    low = middle - from<Mpfr>(e.radius);
    high = middle + from<Mpfr>(e.radius);
  }

  /// Verdict for a stored value that is a number or an infinity (e4m3's NaN is one of the two).
  Verdict verdict(const Mpfr& bound, double s) const {
    if (std::isinf(s) && !store.rounds) {
      const bool own = slowly_rounded(store.format, low) == s;
      const bool may = slowly_rounded(store.format, high) == s;
      return own && may ? Verdict::within : own || may ? Verdict::undecided : Verdict::exceeds;
    }
    if (least(high - bound) <= s && s <= most(low + bound)) return Verdict::within;
    if (s < least(low - bound) || s > most(high + bound)) return Verdict::exceeds;
    const bool is_nearest =
        slowly_rounded(store.format, low) == s && slowly_rounded(store.format, high) == s;
    return !store.rounds && store.format.kind != Kind::fp64 && is_nearest ? Verdict::within
                                                                          : Verdict::undecided;
  }
  Verdict verdict(double bound, double s) const { return verdict(from<Mpfr>(bound), s); }

 private:
  /// RN where the store rounds, else what a comparison with s comes to: the neighbour inside.
  double least(const Mpfr& z) const {
    return store.rounds ? slowly_rounded(store.format, z) : mpfr_get_d(z.get(), MPFR_RNDU);
  }
  double most(const Mpfr& z) const {
    return store.rounds ? slowly_rounded(store.format, z) : mpfr_get_d(z.get(), MPFR_RNDD);
  }
};

/// Every value of a narrow format, 0 once, and an infinity at either end unless it saturates.
inline std::vector<double> all_values(const Format& f) {
  std::vector<double> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << f.bits(); ++bits) {
    const double v = decode(f, bits);
    if (std::isfinite(v) && !(v == 0 && std::signbit(v))) values.push_back(v);
  }
  if (f.overflow != Overflow::saturate) values.insert(values.end(), {HUGE_VAL, -HUGE_VAL});
  return values;
}

}  // namespace opbound::attack
