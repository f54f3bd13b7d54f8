// What is certain of a tracked infinity, NaN or 0, and of what an operation makes of them: it is
// the same in every execution and over the extended reals, or nothing is claimed; but of what
// overflows, or may, that it is large.
#pragma once

#include "bounds/facts.hpp"
#include "bounds/radius.hpp"

namespace opbound {

template <class T, class K>
struct Tracked;

namespace detail {

template <class T, class K>
OPBOUND_HD bool is_exact_infinity(Tracked<T, K> x) {
  return x.radius == 0 && x.spread == 0 && !is_finite(to_double(x)) && to_double(x) == to_double(x);
}

/// May a value of T be known as large only?
template <class T>
inline constexpr bool may_be_beyond = requires {
  Facts<T>::format.largest();
};

/// Overflowed, or may have in another execution: an infinity whose radius is neither 0 nor infinite
/// says that every execution's value, and the exact one, have its sign and are at least that large.
template <class T, class K>
OPBOUND_HD bool is_beyond(Tracked<T, K> x) {
  if constexpr (may_be_beyond<T>)
    return x.radius > 0 && x.radius < infinite && magnitude_bits(to_double(x)) == infinity_bits;
  else
    return false;
}

/// NaN in every execution: an input, or what exact infinities and zeros make.
template <class T, class K>
OPBOUND_HD bool is_certain_nan(Tracked<T, K> x) {
  return to_double(x) != to_double(x) && x.radius == 0 && x.spread == 0;
}

/// Is the value finite in every execution and over the reals?
template <class T, class K>
OPBOUND_HD bool is_finite_everywhere(Tracked<T, K> x) {
  return is_finite(to_double(x)) && x.radius < infinite && x.spread < infinite;
}

/// Has every execution's value, and the exact one, this sign, none being 0?
template <class T, class K>
OPBOUND_HD bool has_certain_sign(Tracked<T, K> x) {
  return is_exact_infinity(x) || is_beyond(x) ||
         (is_finite_everywhere(x) && x.radius < x.near() * shrink);
}

/// An infinity stays one whatever finite value is added, infinity - infinity is NaN; of anything
/// else nothing is claimed.
template <class T, class K>
OPBOUND_HD bool is_certain_sum(Tracked<T, K> a, Tracked<T, K> b) {
  return (is_exact_infinity(a) && (is_finite_everywhere(b) || is_exact_infinity(b))) ||
         (is_exact_infinity(b) && is_finite_everywhere(a)) || is_certain_nan(a) ||
         is_certain_nan(b);
}

template <class T, class K>
OPBOUND_HD bool is_exact_zero(Tracked<T, K> x) {
  return to_double(x) == 0 && x.radius == 0 && x.spread == 0;
}

/// Infinity times what may be 0, or of either sign, is anything; times an exact 0 it is NaN.
template <class T, class K>
OPBOUND_HD bool is_certain_product(Tracked<T, K> a, Tracked<T, K> b) {
  const auto decides = [](const auto& x) { return has_certain_sign(x) || is_exact_zero(x); };
  return (is_exact_infinity(a) && decides(b)) || (is_exact_infinity(b) && decides(a)) ||
         is_certain_nan(a) || is_certain_nan(b);
}

/// infinity / b, or a / 0; NaN where 0 / 0 or infinity / infinity is exact. A 0 of another kernel
/// may have the other sign: that of max(0, -0), or of 0 b.
template <class T, class K>
OPBOUND_HD bool is_certain_quotient(Tracked<T, K> a, Tracked<T, K> b) {
  const bool is_signed_zero = !K::foreign && is_exact_zero(b);
  const bool b_has_sign = is_signed_zero || (is_finite_everywhere(b) && has_certain_sign(b));
  if (is_certain_nan(a) || is_certain_nan(b)) return true;
  if (is_exact_zero(a) && is_exact_zero(b)) return true;
  if (is_exact_infinity(a) && is_exact_infinity(b)) return true;
  return (is_exact_infinity(a) && b_has_sign) || (is_signed_zero && has_certain_sign(a));
}

/// A result that is not finite: claimed only where every execution has it.
template <class T, class K>
OPBOUND_HD Tracked<T, K> not_finite(T value, bool is_certain) {
  Tracked<T, K> r(value);
  const bool is_ieee = Facts<T>::has_nan || to_double(value) == to_double(value);
  r.radius = is_certain && is_ieee ? 0 : infinite;
  if constexpr (K::foreign) r.spread = r.radius;
  return r;
}

/// What a kernel's result claims at last: of one that is only known to be large, nothing; our own
/// NaN is one in every execution, its bits are known.
template <class T, class K>
OPBOUND_HD double claimed_radius(Tracked<T, K> x) {
  if (is_beyond(x)) return infinite;
  return !K::foreign && to_double(x) != to_double(x) ? 0 : x.radius;
}

}  // namespace detail
}  // namespace opbound
