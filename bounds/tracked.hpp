// Tracked<T>: a running error bound (Wilkinson 1986; Higham 2002, section 3.3) as a number type.
//
// A kernel run over Tracked<T> computes what it computes over T, and beside every value
//   radius: |value - exact| <= radius, exact being the same algorithm over the real numbers.
// Two kinds of kernel:
//   Own: this very kernel, order and input: bits are known, so exact operations add nothing.
//   Foreign: any kernel of this algorithm with the declared accuracy of its functions. Its values
//   are not ours: `spread` bounds |theirs - ours|, and local errors are taken at |ours| + spread.
//   `radius` then bounds |theirs - exact|.
// After pivot(p) the exact result no longer depends on p, so the radius of p is dropped; the spread
// stays.
//
// The radius is fp64 whatever T is. Every update is a sum of products of non-negative terms with at
// most 7 roundings on any path, DoubleDouble's size taken from its high part among them; it is
// multiplied by 1 + 2^-49 > (1 + 2^-53)^15, and lifted by the smallest subnormal where a product
// may have underflowed.
//
// A value that is not finite has radius 0 where it is the same in every execution, because exact
// infinities or certain NaNs made it; where it overflowed, or may have, the least magnitude that it
// and the exact value have (bounds/beyond.hpp); else infinity: then nothing is claimed of it.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "bounds/beyond.hpp"
#include "bounds/facts.hpp"
#include "bounds/radius.hpp"
#include "bounds/special_values.hpp"
#include "ops/number.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// This very kernel: functions are as accurate as ours, nothing else can be computed.
struct Own {
  static constexpr bool foreign = false;
};

namespace detail {
template <bool foreign>
struct Spread {
  double spread = 0;
};
template <>
struct Spread<false> {
  static constexpr double spread = 0;
};

}  // namespace detail

template <class T, class K = Own>
struct Tracked : detail::Spread<K::foreign> {
  T value{};
  double radius = 0;

  Tracked() = default;
  OPBOUND_HD explicit Tracked(T exact) : value(exact) {}

  OPBOUND_HD double size() const { return abs(to_double(value)); }
  /// Largest and smallest magnitude that another execution's value may have.
  OPBOUND_HD double far() const { return size() + this->spread; }
  OPBOUND_HD double near() const { return detail::positive_part(size() - this->spread); }
};

template <class T, class K>
OPBOUND_HD double to_double(Tracked<T, K> x) {
  return to_double(x.value);
}

namespace detail {

/// What an operation makes of its operands' errors before it rounds: `radius` for the difference to
/// the exact result, `spread` for the difference to our result.
struct Propagated {
  double radius;
  double spread;
};

/// Local error e |fl(z)| + eta, taken where another execution's value may lie.
OPBOUND_HD inline double local_term(LocalError e, double size, double spread) {
  return times(e.relative, size + spread) + e.absolute;
}

/// radius = propagated + local; theirs and ours both round, so spread takes both local terms.
template <class T, class K>
OPBOUND_HD Tracked<T, K> finish(T value, Propagated p, LocalError theirs, LocalError ours,
                                bool exact) {
  Tracked<T, K> r(value);
  const double size = r.size();
  if constexpr (K::foreign) {
    const bool nothing_rounds = exact && p.spread == 0;
    const double local = nothing_rounds ? 0 : local_term(theirs, size, p.spread);
    const double mine = exact ? 0 : local_term(ours, size, 0);
    r.radius = up(p.radius + local);
    r.spread = up(p.spread + local + mine);
    if (!(size + r.spread <= Facts<T>::format.largest()))
      return beyond<T, K>(value, to_double(value) < 0, size - up(r.spread + r.radius));
  } else {
    r.radius = up(p.radius + (exact ? 0 : local_term(ours, size, 0)));
  }
  if (!(r.radius >= 0)) r.radius = infinite;
  return r;
}

/// a / b of a b that overflowed, or may have: at most |a| / least, and 0 where theirs is infinite.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> quotient_by_beyond(T quotient, Tracked<T, K> a,
                                                          Tracked<T, K> b) {
  if (!is_finite_everywhere(a)) return not_finite<T, K>(quotient, false);
  const double left = over(most_of(a), b.radius * shrink);
  const bool is_infinite = b.radius > Facts<T>::format.largest() * (1 + 2 * Facts<T>::u);
  return finish<T, K>(quotient, {left, is_infinite ? 0 : left}, Facts<T>::divide, Facts<T>::divide,
                      !K::foreign || is_infinite);
}

}  // namespace detail

// ---- operations

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> operator+(Tracked<T, K> a, Tracked<T, K> b) {
  const T sum = a.value + b.value;
  if (!detail::is_finite(to_double(sum))) {
    if (detail::is_certain_sum(a, b)) return detail::not_finite<T, K>(sum, true);
    return detail::overflowed_sum(sum, a, b);
  }
  // |(a' + b') - (a + b)| <= ra + rb
  return detail::finish<T, K>(sum, {a.radius + b.radius, a.spread + b.spread}, Facts<T>::add,
                              Facts<T>::add, Facts<T>::exact_sum(a.value, b.value, sum));
}

template <class T, class K>
OPBOUND_HD Tracked<T, K> operator-(Tracked<T, K> a) {
  a.value = -a.value;
  return a;
}

template <class T, class K>
OPBOUND_HD Tracked<T, K> operator-(Tracked<T, K> a, Tracked<T, K> b) {
  return a + (-b);
}

namespace detail {
/// 0 times a number of either sign is a zero of either sign, and dividing by it gives either
/// infinity: a radius that is all but 0 tells it from an exact 0.
template <class T, class K>
OPBOUND_RARE OPBOUND_HD double unknown_zero(Tracked<T, K> a, Tracked<T, K> b) {
  const bool is_known =
      (has_certain_sign(a) || is_exact_zero(a)) && (has_certain_sign(b) || is_exact_zero(b));
  return is_known ? 0 : 0x1p-1074;
}

/// |a' b' - a b| <= |a'| rb + |b'| ra + ra rb, with |a'| <= far(a). Even 0 times what is not known
/// is not known: it may be infinite.
template <class T, class K>
OPBOUND_HD Propagated propagate_product(Tracked<T, K> a, Tracked<T, K> b) {
  const auto combined = [](double x, double y, double ex, double ey) {
    // three products lose 2^-1075 each at most where they underflow: of 2^-958 less than 2^-115,
    // which is nothing beside the 2^-49 of `up`
    const double sum = x * ey + y * ex + ex * ey;
    if (sum > 0x1p-958 && sum < infinite) return sum;
    if (ex == 0 && ey == 0) return 0.0;
    if (!(ex < infinite && ey < infinite)) return infinite;
    return times(x, ey) + times(y, ex) + times(ex, ey);
  };
  const double radius = combined(a.far(), b.far(), a.radius, b.radius);
  const bool is_exact = a.radius == 0 && b.radius == 0 && a.spread == 0 && b.spread == 0;
  return {radius > 0 || is_exact ? radius : unknown_zero(a, b),
          K::foreign ? combined(a.size(), b.size(), a.spread, b.spread) : 0};
}
}  // namespace detail

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> operator*(Tracked<T, K> a, Tracked<T, K> b) {
  const T product = a.value * b.value;
  if (!detail::is_finite(to_double(product))) {
    if (detail::is_certain_product(a, b)) return detail::not_finite<T, K>(product, true);
    return detail::overflowed_product(product, a, b);
  }
  LocalError local = Facts<T>::multiply;
  if (to_double(product) == 0) [[unlikely]]  // what underflows errs by itself, as theirs may
    local.absolute = min(local.absolute, detail::up(detail::times(a.far(), b.far())));
  return detail::finish<T, K>(product, detail::propagate_product(a, b), local, local,
                              Facts<T>::exact_product(a.value, b.value, product));
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> operator/(Tracked<T, K> a, Tracked<T, K> b) {
  const T quotient = a.value / b.value;
  const double q = to_double(quotient);
  if (!detail::is_finite(q)) {
    if (detail::is_certain_quotient(a, b)) return detail::not_finite<T, K>(quotient, true);
    return detail::overflowed_quotient(quotient, a, b);
  }
  if (detail::is_exact_infinity(b) && detail::is_finite_everywhere(a))
    return Tracked<T, K>(quotient);
  if constexpr (detail::may_be_beyond<T>)
    if (detail::is_beyond(b)) return detail::quotient_by_beyond<T, K>(quotient, a, b);
  // |a'/b' - a/b| <= (ra + |a'/b'| rb) / (|b'| - rb), |a'/b'| <= far(a) / near(b)
  const double lowest = b.near() * detail::shrink - b.radius;
  if (!(lowest > 0)) return detail::not_finite<T, K>(quotient, false);
  const double near = b.near() * detail::shrink;
  const double of_divisor =
      b.radius == 0 ? 0 : detail::times(detail::over(a.far(), near), b.radius);
  detail::Propagated p{detail::over(a.radius + of_divisor, lowest * detail::shrink), 0};
  if constexpr (K::foreign) {
    const double of_size = detail::over(a.size(), b.size() * detail::shrink);
    p.spread = detail::over(a.spread + detail::times(of_size, b.spread), near);
  }
  LocalError local = Facts<T>::divide;
  if (q == 0) local.absolute = min(local.absolute, detail::up(detail::over(a.far(), near)));
  return detail::finish<T, K>(quotient, p, local, local,
                              Facts<T>::exact_quotient(a.value, b.value, quotient));
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> fma(Tracked<T, K> a, Tracked<T, K> b, Tracked<T, K> c) {
  // A type without a fused operation; or another kernel, which may round the product or not.
  if constexpr (K::foreign || !requires { Facts<T>::fused; }) {
    return a * b + c;
  } else {
    const T result = fma(a.value, b.value, c.value);
    if (!detail::is_finite(to_double(result)))
      return detail::not_finite<T, K>(
          result, (detail::is_certain_product(a, b)
                       ? detail::is_finite_everywhere(c) || detail::is_exact_infinity(c)
                       : detail::is_exact_infinity(c) && detail::is_finite_everywhere(a) &&
                             detail::is_finite_everywhere(b)) ||
                      detail::is_certain_nan(a) || detail::is_certain_nan(b) ||
                      detail::is_certain_nan(c));
    detail::Propagated p = detail::propagate_product(a, b);
    p.radius += c.radius;
    p.spread += c.spread;
    const T zero = from<T>(0.0);
    const bool exact = Facts<T>::exact_product(a.value, b.value, zero) &&
                       Facts<T>::exact_sum(zero, c.value, result);
    return detail::finish<T, K>(result, p, Facts<T>::fused, Facts<T>::fused, exact);
  }
}

/// Over the reals a root of a negative number is none: the algorithm, and every execution of it,
/// has to see to it that there is none (sums of squares, max with 0).
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> sqrt(Tracked<T, K> a) {
  const T root = sqrt(a.value);
  if (!detail::is_finite(to_double(root)))
    return detail::not_finite<T, K>(root,
                                    detail::is_exact_infinity(a) || detail::is_certain_nan(a));
  // |sqrt a' - sqrt a| <= r / (sqrt a' + sqrt(a' - r)), and always <= sqrt r
  const auto step = [](double reference, double r) {
    if (r == 0) return 0.0;
    const double sum = sqrt(reference) + sqrt(detail::positive_part(reference - r));
    const double by_slope = detail::over(r, sum * detail::shrink);
    const double by_root = detail::up(sqrt(r));
    return by_slope < by_root ? by_slope : by_root;
  };
  return detail::finish<T, K>(root, {step(a.near(), a.radius), step(a.size(), a.spread)},
                              Facts<T>::root, Facts<T>::root, Facts<T>::exact_root(a.value, root));
}

template <class T, class K>
OPBOUND_HD Tracked<T, K> abs(Tracked<T, K> a) {
  a.value = abs(a.value);
  return a;
}

namespace detail {
/// Is a above b over the reals and in every execution? Both lie within radius + spread of ours; the
/// last term is for what to_double leaves out of a double-double.
template <class T, class K>
OPBOUND_HD bool is_certainly_above(Tracked<T, K> a, Tracked<T, K> b) {
  const double reach = up(a.radius + a.spread + b.radius + b.spread);
  return to_double(a) - to_double(b) > up(reach + 0x1p-52 * (a.size() + b.size()));
}
}  // namespace detail

/// max and min are Lipschitz with constant 1 in the maximum norm; picking one operand's radius
/// is right only where that operand wins for certain. NaN wins over everything.
template <class T, class K>
OPBOUND_HD Tracked<T, K> max(Tracked<T, K> a, Tracked<T, K> b) {
  if (detail::is_beyond(a) || detail::is_beyond(b)) return detail::max_of_beyond(a, b);
  if (detail::is_certainly_above(a, b)) return a;
  if (detail::is_certainly_above(b, a)) return b;
  Tracked<T, K> r(max(a.value, b.value));
  if (to_double(r) != to_double(r))
    return detail::not_finite<T, K>(r.value,
                                    detail::is_certain_nan(a) || detail::is_certain_nan(b));
  r.radius = a.radius > b.radius ? a.radius : b.radius;
  if constexpr (K::foreign) r.spread = a.spread > b.spread ? a.spread : b.spread;
  return r;
}
template <class T, class K>
OPBOUND_HD Tracked<T, K> min(Tracked<T, K> a, Tracked<T, K> b) {
  return -max(-a, -b);
}

/// Only a finite pivot drops out of the exact result; an overflowed one stays unknown.
template <class T, class K>
OPBOUND_HD Tracked<T, K> pivot(Tracked<T, K> x) {
  if (detail::is_finite(to_double(x))) x.radius = 0;
  return x;
}

namespace detail {
[[noreturn]] OPBOUND_HD inline void refuse_branch() {
#ifdef __CUDA_ARCH__
  __trap();
#else
  std::fputs("opbound: internal error: a kernel branches on a rounded value\n", stderr);
  std::abort();
#endif
}
}  // namespace detail

/// Only what is certain decides between two functions: exact values, and values farther from 0 than
/// their radius. A kernel that asks of anything else is wrong.
template <class T, class K>
OPBOUND_HD bool is_negative(Tracked<T, K> x) {
  const bool is_known = x.radius == 0 && x.spread == 0;
  if (!is_known && !detail::has_certain_sign(x)) detail::refuse_branch();
  return is_negative(x.value);
}

/// Between two forms of one function either is right; but every execution must take the same one,
/// since its roundings are what was tracked: the value, an input rounded once for instance, has to
/// be the same in all of them.
template <class T, class K>
OPBOUND_HD bool takes_negative_form(Tracked<T, K> x) {
  if (x.spread != 0 && !detail::has_certain_sign(x)) detail::refuse_branch();
  return is_negative(x.value);
}

/// An input or constant that T cannot hold is rounded once; its error is known.
template <class T, class K>
struct Conversion<Tracked<T, K>> {
  OPBOUND_HD static Tracked<T, K> from(double x) {
    Tracked<T, K> r(opbound::from<T>(x));
    const double v = to_double(r.value);
    if (v != x && x == x)
      r.radius = detail::is_finite(v) ? detail::up(abs(v - x)) : detail::infinite;
    return r;
  }
  /// |v - (high + low)| <= |v - high| + |low|, and the constant itself is known to 2^-106.
  OPBOUND_HD static Tracked<T, K> from(Real x) {
    Tracked<T, K> r(constant<T>(x));
    r.radius = detail::up(abs((to_double(r.value) - x.high) - x.low) + 0x1p-105 * abs(x.high));
    return r;
  }
};

}  // namespace opbound

#include "bounds/tracked_functions.hpp"  // IWYU pragma: keep
#include "bounds/tracked_store.hpp"      // IWYU pragma: keep
