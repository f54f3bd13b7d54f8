// What is proved of each number type's operations: the local terms of a running error bound.
//
// Every error is relative to the computed result: |fl(z) - z| <= e |fl(z)| + eta. For round to
// nearest e = u (Higham 2002, theorem 2.3), for functions stated in ulp of the exact result e = 2 k
// u.
#pragma once

#include "ops/number.hpp"

namespace opbound {

/// Local error of one operation or function: e relative, eta absolute (underflow).
struct LocalError {
  double relative;
  double absolute;
};

template <class T>
struct Facts;

namespace detail {

/// IEEE-like types: every basic operation correctly rounded to `F`.
template <Format F>
struct RoundedFacts {
  static constexpr Format format = F;
  static constexpr double u = F.unit_roundoff();
  static constexpr bool has_nan = true;  ///< NaN means what IEEE 754 says
  /// Times the largest value three times (a factor, a gradient, a loss scale) it stays 2^20 below
  /// eta, and in fp32's case far above fp64's subnormal numbers, which are slow.
  static constexpr double negligible = F.exponent_max > 500
                                           ? 0x1p-1074
                                           : F.eta() * power_of_two(-3 * F.exponent_max - 23);
  // Addition and subtraction do not underflow (Hauser 1996): their results are multiples of the
  // smallest subnormal. A square root cannot get small enough to underflow.
  static constexpr LocalError add{u, 0};
  static constexpr LocalError multiply{u, F.eta()};
  static constexpr LocalError divide{u, F.eta()};
  static constexpr LocalError fused{u, F.eta()};
  static constexpr LocalError root{u, 0};

  // Was the rounding nothing? Answered in double, where the operands are exact; "no" is always
  // safe.
  template <class T>
  OPBOUND_HD static bool exact_sum(T x, T y, T result) {
    const double a = to_double(x), b = to_double(y), sum = a + b;
    const double b_part = sum - a;
    return sum == to_double(result) && (a - (sum - b_part)) + (b - b_part) == 0;  // two_sum
  }
  template <class T>
  OPBOUND_HD static bool exact_product(T x, T y, T result) {
    const double a = to_double(x), b = to_double(y), p = to_double(result);
    if (a == 0 || b == 0) return p == 0;
    return a * b == p && abs(p) > 0x1p-900 && opbound::fma(a, b, -p) == 0;
  }
  template <class T>
  OPBOUND_HD static bool exact_quotient(T x, T y, T result) {
    const double a = to_double(x), b = to_double(y), q = to_double(result);
    if (a == 0) return b != 0 && q == 0;
    return q * b == a && abs(a) > 0x1p-900 && opbound::fma(q, b, -a) == 0;
  }
  template <class T>
  OPBOUND_HD static bool exact_root(T x, T result) {
    const double a = to_double(x), r = to_double(result);
    return a == 0 || (abs(a) > 0x1p-900 && opbound::fma(r, r, -a) == 0);
  }
};

}  // namespace detail

template <>
struct Facts<float> : detail::RoundedFacts<fp32> {
  /// Correctly rounded on all inputs (tests/test_elementary_full.cpp); pow within 1 ulp.
  OPBOUND_HD static constexpr LocalError function(Function f) {
    const double e = f == Function::pow ? 2 * u : u;
    return {e, f == Function::pow ? 2 * fp32.eta() : fp32.eta()};
  }
};

template <>
struct Facts<double> : detail::RoundedFacts<fp64> {
  /// |f - exact| <= k ulp(exact) <= 2 k u |exact| <= 2 k u (1 + 4 k u) |f|.
  OPBOUND_HD static constexpr LocalError function(Function f) {
    const double k = fp64_error_ulp(f);
    return {2 * k * u * (1 + 4 * k * u), k * fp64.smallest_subnormal()};
  }
};

/// Functions of a low format are the true value, rounded (tests/test_elementary.cpp).
template <Format F>
struct Facts<Rounded<F>> : detail::RoundedFacts<F> {
  OPBOUND_HD static constexpr LocalError function(Function) { return {F.unit_roundoff(), F.eta()}; }
};

}  // namespace opbound
