// Tracked<DoubleDouble>: a value to about 100 bits with a proven radius, on the host and on the
// device. Run over a definition it is the reference that decides nearly everything.
#pragma once

#include "bounds/tracked.hpp"
#include "reference/double_double.hpp"
#include "reference/exact.hpp"

namespace opbound {

/// The high part: what sizes, estimates and branches go by.
OPBOUND_HD constexpr double to_double(DoubleDouble x) { return x.high; }

using CertifiedDouble = Tracked<DoubleDouble, Own>;

/// DoubleDoubleFacts are relative to the exact value; 1 + 2^-40 turns them to the computed one's
/// high part.
template <>
struct Facts<DoubleDouble> {
  OPBOUND_HD static constexpr LocalError local(double relative, double absolute = 0) {
    return {relative * (1 + 0x1p-40), absolute + DoubleDoubleFacts::underflow};
  }
  static constexpr double u = DoubleDoubleFacts::multiply;
  static constexpr bool has_nan = false;  ///< NaN also stands for what a pair cannot hold
  static constexpr double negligible = 0x1p-1074;
  static constexpr LocalError add{DoubleDoubleFacts::add * (1 + 0x1p-40),
                                  DoubleDoubleFacts::underflow};
  static constexpr LocalError multiply{DoubleDoubleFacts::multiply * (1 + 0x1p-40),
                                       DoubleDoubleFacts::underflow};
  static constexpr LocalError divide{DoubleDoubleFacts::divide * (1 + 0x1p-40),
                                     DoubleDoubleFacts::underflow};
  static constexpr LocalError root{DoubleDoubleFacts::sqrt * (1 + 0x1p-40),
                                   DoubleDoubleFacts::underflow};

  OPBOUND_HD static constexpr LocalError function(Function f) {
    using F = DoubleDoubleFacts;
    switch (f) {
      case Function::exp:
        return local(F::exp);
      case Function::exp2:
        return local(F::exp2);
      case Function::expm1:
        return local(F::expm1);
      case Function::log:
        return local(F::log);
      case Function::log1p:
        return local(F::log1p);
      case Function::tanh:
        return local(F::tanh);
      case Function::erf:
        return local(F::erf);
      case Function::erfc:
        return local(F::erfc);
      case Function::sin:
        return local(F::sin, F::angle_reduction);
      case Function::cos:
        return local(F::cos, F::angle_reduction);
      case Function::rsqrt:
        return local(F::rsqrt);
      default:
        return {detail::infinite, detail::infinite};  // no double-double pow
    }
  }

  /// Sums and products of doubles are pairs without error (two_sum, two_product).
  OPBOUND_HD static bool exact_sum(DoubleDouble a, DoubleDouble b, DoubleDouble) {
    return (a.low == 0 && b.low == 0) || is_zero(a) || is_zero(b);
  }
  OPBOUND_HD static bool exact_product(DoubleDouble a, DoubleDouble b, DoubleDouble result) {
    return is_zero(a) || is_zero(b) || (a.low == 0 && b.low == 0 && abs(result.high) > 0x1p-900);
  }
  /// A power of two divides without error, unless the low part underflows.
  OPBOUND_HD static bool exact_quotient(DoubleDouble a, DoubleDouble b, DoubleDouble result) {
    const bool is_power = b.low == 0 && (detail::magnitude_bits(b.high) << 12) == 0;
    return is_zero(a) || (is_power && abs(result.high) > 0x1p-900 && result.low * b.high == a.low);
  }
  OPBOUND_HD static bool exact_root(DoubleDouble a, DoubleDouble) { return is_zero(a); }

 private:
  OPBOUND_HD static bool is_zero(DoubleDouble x) { return x.high == 0 && x.low == 0; }
};

/// A double is exact, a constant known to 2^-106.
template <>
struct Conversion<CertifiedDouble> {
  OPBOUND_HD static CertifiedDouble from(double x) { return CertifiedDouble(DoubleDouble{x, 0}); }
  OPBOUND_HD static CertifiedDouble from(Real x) {
    CertifiedDouble r(constant<DoubleDouble>(x));
    r.radius = 0x1p-105 * abs(x.high);
    return r;
  }
};

namespace detail {
/// Near -1 the low part is what is left.
template <>
OPBOUND_HD inline double one_plus(DoubleDouble v) {
  return (DoubleDouble{1, 0} + v).high;
}
}  // namespace detail

template <>
OPBOUND_HD inline CertifiedDouble pi<CertifiedDouble>() {
  CertifiedDouble x(pi<DoubleDouble>());
  x.radius = 0x1p-104;  // pi's pair is right to 2^-106 pi
  return x;
}

// Exact infinities are none of DoubleDouble's numbers, but masked logits are full of -infinity: the
// steps of a softmax over them are decided here, so that such rows need no intervals.

/// Infinity + a number, or infinity + infinity of the same sign: that infinity, exactly.
OPBOUND_HD inline CertifiedDouble operator+(CertifiedDouble a, CertifiedDouble b) {
  if (!detail::is_exact_infinity(a) && !detail::is_exact_infinity(b))
    return operator+<DoubleDouble, Own>(a, b);
  return detail::not_finite<DoubleDouble, Own>(DoubleDouble{a.value.high + b.value.high, 0},
                                               detail::is_certain_sum(a, b));
}

/// exp(-infinity) = 0
OPBOUND_HD inline CertifiedDouble exp(CertifiedDouble x) {
  if (detail::is_exact_infinity(x) && x.value.high < 0) return CertifiedDouble(DoubleDouble{0, 0});
  return exp<DoubleDouble, Own>(x);
}

/// The value as every reference reports it; an infinite radius where it is not decided here.
OPBOUND_HD inline Exact exact_of(const CertifiedDouble& x) {
  using Class = Exact::Class;
  if (detail::is_exact_infinity(x))
    return {x.value.high, 0, 0, x.value.high > 0 ? Class::plus_infinity : Class::minus_infinity};
  if (!is_finite(x.value) || !detail::is_finite(x.radius)) return {0, 0, detail::infinite, {}};
  return {x.value.high, x.value.low, x.radius, Exact::Class::finite};
}

}  // namespace opbound
