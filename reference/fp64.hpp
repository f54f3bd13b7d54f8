// Fp64: a double with functions of the reference's own, for the host and the device. Tracked over
// it, a definition gives a certified value to about 50 bits at the price of a few operations: the
// rung below double-double, for sweeps over every input.
//
// exp and erfc read double-double's tables; their errors are derived below, attacked in
// tests/test_fp64.cpp and, of exp and erfcx_fp64, proved by tools/python/prove_functions.py.
#pragma once

#include "bounds/tracked.hpp"
#include "reference/double_double.hpp"
#include "reference/exact.hpp"

namespace opbound {

struct Fp64 {
  double value = 0;
};

/// Errors of Fp64's functions in units of u |exact|, u = 2^-53, derived above each.
struct Fp64Facts {
  static constexpr double exp = 2.5, erfcx = 2.5, erfc = 9;
  static constexpr double exp_underflow = 0x1p-1020;  ///< below -708, where exp gives 0
  static constexpr double erfc_underflow = 0x1p-978;  ///< from 26 on, where erfc gives 0
};

OPBOUND_HD constexpr double to_double(Fp64 x) { return x.value; }

OPBOUND_HD constexpr Fp64 operator-(Fp64 x) { return {-x.value}; }
OPBOUND_HD constexpr Fp64 operator+(Fp64 x, Fp64 y) { return {x.value + y.value}; }
OPBOUND_HD constexpr Fp64 operator-(Fp64 x, Fp64 y) { return {x.value - y.value}; }
OPBOUND_HD constexpr Fp64 operator*(Fp64 x, Fp64 y) { return {x.value * y.value}; }
OPBOUND_HD constexpr Fp64 operator/(Fp64 x, Fp64 y) { return {x.value / y.value}; }
OPBOUND_HD inline Fp64 sqrt(Fp64 x) { return {sqrt(x.value)}; }
OPBOUND_HD inline Fp64 fma(Fp64 x, Fp64 y, Fp64 z) {
  return {double_double::fused(x.value, y.value, z.value)};
}
OPBOUND_HD inline Fp64 abs(Fp64 x) { return {abs(x.value)}; }
OPBOUND_HD inline Fp64 max(Fp64 x, Fp64 y) { return {max(x.value, y.value)}; }
OPBOUND_HD inline Fp64 min(Fp64 x, Fp64 y) { return {min(x.value, y.value)}; }
OPBOUND_HD constexpr bool is_negative(Fp64 x) { return x.value < 0; }
OPBOUND_HD constexpr Fp64 stored_in(const Format&, Fp64 x) { return x; }

template <>
struct Conversion<Fp64> {
  OPBOUND_HD static constexpr Fp64 from(double x) { return {x}; }
  OPBOUND_HD static constexpr Fp64 from(Real x) { return {x.high}; }
};

/// e^x. Error, in units of u |exact|, u = 2^-53: x = k ln2/64 + r, |r| <= 0.0055, with the first
/// part of k ln2/64 subtracted exactly: r is off by 2^-53 |r| and, of k times the second part, by
/// 2^-98 |k|: below 0.01. q = e^r - 1 to degree 6 (the next term is 2^-64) and four roundings of
/// it, each 0.006: 0.03. M = 2^(j/64) - 1 is a pair; M + (q + M q): the inner sums are 0.006 and
/// less, the sum with M is rounded once, 0.42 at most, and once more with 1: 1 where the result is
/// 1 or more, and the halved units below it 2. In all below 2.5. Below -708 the result is 0,
/// and the exact one below 2^-1021.
OPBOUND_HD inline Fp64 exp(Fp64 x) {
  namespace dd = double_double;
  if (!(x.value < 709.5)) return {x.value != x.value ? x.value : detail::infinite};
  if (x.value < -708) return {0};
  const double k = dd::nearest_integer(x.value * dd::sixty_four_over_ln2);
  const double r =
      dd::fused(-k, dd::ln2_over_64_second, dd::fused(-k, dd::ln2_over_64_first, x.value));
  double p = dd::fused(r, 0x1.6c16c16c16c17p-10, 0x1.1111111111111p-7);  // 1/720, 1/120
  p = dd::fused(r, p, 0x1.5555555555555p-5);                             // 1/24
  p = dd::fused(r, p, 0x1.5555555555555p-3);                             // 1/6
  p = dd::fused(r, p, 0.5);
  const double q = dd::fused(r * r, p, r);
  const int shifted = static_cast<int>(k) + 32;
  const double* const row = dd::power_minus_one(shifted & 63);
  const double fraction = row[0] + (dd::fused(row[0], q, q) + row[1]);
  return {(1 + fraction) * power_of_two(shifted >> 6)};
}

/// e^(x^2) erfc(x) for x in [0, 26): double-double's polynomials up to degree 13. What is left out
/// is below 2^-56 of the value: (x - middle) / x is at most 1/17 above 1, and c_k falls faster than
/// that below. Error in units of u: the first coefficient 1, the rest of Horner's rule 0.3, since
/// |c_1 (x - middle)| < c_0 / 8, the last sum 1: with what is left out below 2.5.
OPBOUND_HD inline double erfcx_fp64(double x) {
  namespace dd = double_double;
  const dd::ErfcxInterval at = dd::erfcx_interval(x);
  const double* const c = dd::erfcx_series(at.index);  // 13 pairs, then single coefficients
  const double t = x - at.middle;
  double y = dd::fused(t, c[26], c[24]);
  for (int k = 11; k >= 0; --k) y = dd::fused(t, y, c[2 * k]);
  return y;
}

/// erfc(x) = e^(-x^2) erfcx(x) for x >= 0, else 2 - erfc(-x). Error, in units of u |exact|: e^(-p)
/// of p = fl(x^2) 2.5; its factor 1 - (x^2 - p) two roundings, 2, the neglected square being below
/// 2^-86; erfcx 2.5; the last product 1: 8. For x < 0 the exact result is at least 1 and the sum
/// rounds once more: 9.
OPBOUND_HD inline Fp64 erfc(Fp64 x) {
  namespace dd = double_double;
  const double a = abs(x.value);
  if (!(a < 26)) {
    if (x.value != x.value) return x;
    return {x.value < 0 ? 2.0 : 0.0};  // erfc(26) < 2^-980
  }
  const double p = a * a, rest = dd::fused(a, a, -p);
  const double y = exp(Fp64{-p}).value * (1 - rest) * erfcx_fp64(a);
  return {x.value < 0 ? 2 - y : y};
}

template <>
struct Facts<Fp64> : detail::RoundedFacts<fp64> {
  /// Relative to the result: 1 + 2^-40 turns the exact value's errors into that.
  OPBOUND_HD static constexpr LocalError function(Function f) {
    constexpr double slack = 1 + 0x1p-40;
    switch (f) {
      case Function::exp:
        return {Fp64Facts::exp * u * slack, Fp64Facts::exp_underflow};
      case Function::erfc:
        return {Fp64Facts::erfc * u * slack, Fp64Facts::erfc_underflow};
      default:
        return {detail::infinite, detail::infinite};
    }
  }
};

using CertifiedFp64 = Tracked<Fp64, Own>;

template <>
OPBOUND_HD inline CertifiedFp64 pi<CertifiedFp64>() {
  CertifiedFp64 x(Fp64{double_double::pi_pair_first});
  x.radius = 0x1.2p-53;  // the pair's second part is below it
  return x;
}

/// The value as every reference reports it; an infinite radius where it is not decided here.
OPBOUND_HD inline Exact exact_of(const CertifiedFp64& x) {
  using Class = Exact::Class;
  const double v = x.value.value;
  if (detail::is_certain_nan(x)) return {v, 0, 0, Class::nan};
  if (detail::is_exact_infinity(x))
    return {v, 0, 0, v > 0 ? Class::plus_infinity : Class::minus_infinity};
  if (!detail::is_finite(v) || !detail::is_finite(x.radius)) return {0, 0, detail::infinite, {}};
  return {v, 0, x.radius, Class::finite};
}

}  // namespace opbound
