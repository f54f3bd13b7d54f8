// Tracked values that are stored and read again, and the choice between two by the sign of a third.
#pragma once

#include "bounds/tracked.hpp"

namespace opbound {

namespace detail {
/// The value is stored: ours becomes `stored`, and theirs errs by e |v'| + eta, or as ours does
/// where it is ours and `same` says that all store alike. Where only the store makes an infinity of
/// ours, or may make one of theirs, nothing is known.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> stored_as(const Format& f, Tracked<T, K> x, double stored,
                                                 LocalError theirs, [[maybe_unused]] bool same) {
  const double v = to_double(x);
  if (v != v) return x;
  const bool is_same = stored == v;
  const double mine = is_same ? 0 : abs(stored - v);
  Tracked<T, K> r = x;
  r.value = from<T>(stored);
  if (is_same && is_beyond(x))  // another execution's may be finite, and the store rounds it
    return beyond<T, K>(r.value, v < 0, x.radius * (1 - 2 * theirs.relative));
  if (is_same && !is_finite(stored)) return r;  // an infinity is stored as one
  double local = mine;
  if constexpr (K::foreign) {
    if (!same || x.spread != 0) {
      local = local_term(theirs, abs(stored) + mine, x.spread);
      r.spread = up(x.spread + local + mine);
    }
  }
  r.radius = up(x.radius + local);
  constexpr double largest = Facts<T>::format.largest();  // read again, it is a T
  if (!(abs(stored) + r.spread <= min(f.largest(), largest))) {
    r.radius = infinite;
    if constexpr (K::foreign) r.spread = infinite;
  }
  return r;
}
}  // namespace detail

/// Rounded to nearest: |fl(v') - v'| <= u |v'| + eta.
template <class T, class K>
OPBOUND_HD Tracked<T, K> stored_in(const Format& f, Tracked<T, K> x) {
  if constexpr (!requires { Facts<T>::format; }) {
    return x;  // a type of the reference: over the reals storing changes nothing
  } else {
    constexpr Format own = Facts<T>::format;  // a copy: device code has no address of the other
    if (!store_rounds(own, f)) return x;
    return detail::stored_as(f, x, round_to(f, to_double(x)), {f.unit_roundoff(), f.eta()}, true);
  }
}

/// Rounded up or down: the error is below one ulp, at most 2 u |v'| or the smallest subnormal.
template <class T, class K>
OPBOUND_HD Tracked<T, K> stored_stochastically_in(const Format& f, Tracked<T, K> x,
                                                  std::uint32_t random) {
  if constexpr (!requires { Facts<T>::format; }) {
    return x;
  } else {
    constexpr Format own = Facts<T>::format;  // a copy: device code has no address of the other
    if (!store_rounds(own, f)) return x;
    return detail::stored_as(f, x, round_stochastic(f, to_double(x), random),
                             {2 * f.unit_roundoff(), 2 * f.eta()}, false);
  }
}

/// Where the sign of x is not the same in every execution and over the reals, theirs may be a' and
/// the exact one b: |a' - b| <= |a' - ours(a)| + |ours(a) - ours(b)| + |ours(b) - b|.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> where_negative(Tracked<T, K> x, Tracked<T, K> a,
                                                      Tracked<T, K> b) {
  const bool is_known = (x.radius == 0 && x.spread == 0) || detail::has_certain_sign(x);
  Tracked<T, K> r = is_negative(x.value) ? a : b;
  if (is_known) return r;
  const double gap = abs(to_double(a.value - b.value)) * (1 + 4 * Facts<T>::u);
  double apart = max(a.radius, b.radius);
  if constexpr (K::foreign) apart = max(a.spread + b.radius, b.spread + a.radius);
  r.radius = detail::up(gap + max(apart, max(a.radius, b.radius)));
  if (!(r.radius >= 0)) r.radius = detail::infinite;
  if constexpr (K::foreign) {
    r.spread = detail::up(gap + max(a.spread, b.spread));
    if (!(r.spread >= 0)) r.spread = detail::infinite;
  }
  return r;
}

}  // namespace opbound
