// One result of one of CUDA's functions with what judges it, on the host and on the device.
#pragma once

#include <bit>

#include "bounds/judged.hpp"
#include "bounds/tracked_double_double.hpp"
#include "reference/cuda_functions.hpp"
#include "reference/cuda_functions/angle.hpp"
#include "reference/double_double_functions.hpp"

namespace opbound::cuda_function {

/// value +- radius: less than any fp32 result needs to be told, where it is near 0, 1 or 2; or that
/// it overflows.
OPBOUND_HD inline Exact about(double value, double radius) { return {value, 0, radius, {}}; }

OPBOUND_HD inline Exact of_class(double value, Exact::Class kind) { return {value, 0, 0, kind}; }

/// No number: what a record shows of it is NaN too, not the argument.
OPBOUND_HD inline Exact no_number() {
  return of_class(std::bit_cast<double>(0x7ff8000000000000ULL), Exact::Class::nan);
}

/// Of exp, exp2, exp10 and expm1, where double-double cannot hold them; 10^260 is above 2^863.
OPBOUND_HD inline bool is_special_exponential(double x, double last, double lowest, Exact& e) {
  if (x == detail::infinite) {
    e = of_class(x, Exact::Class::plus_infinity);
    return true;
  }
  if (abs(x) <= last) return false;
  e = x > 0 ? about(0x1p800, 0x1p799) : about(lowest, 0x1p-500);
  return true;
}

/// Of logarithms and rsqrt, whose arguments end at `end`; rsqrt falls from infinity to 0.
OPBOUND_HD inline bool is_special_logarithm(double x, double end, bool falls, Exact& e) {
  using Class = Exact::Class;
  constexpr double infinity = detail::infinite;
  if (x > end && x != infinity) return false;
  if (x < end)
    e = no_number();
  else if (x == infinity)
    e = falls ? about(0, 0) : of_class(x, Class::plus_infinity);
  else if (falls && std::bit_cast<std::uint64_t>(x) >> 63 == 0)
    e = of_class(infinity, Class::plus_infinity);
  else
    e = of_class(-infinity, Class::minus_infinity);
  return true;
}

/// Of sqrt, of -0 as well, and of 1 / x.
OPBOUND_HD inline bool is_special_root(double x, Exact& e) {
  if (x > 0 && x != detail::infinite) return false;
  e = x < 0 ? no_number() : x == 0 ? about(0, 0) : of_class(x, Exact::Class::plus_infinity);
  return true;
}
OPBOUND_HD inline bool is_special_reciprocal(double x, Exact& e) {
  using Class = Exact::Class;
  if (x != 0 && abs(x) != detail::infinite) return false;
  const bool is_negative = std::bit_cast<std::uint64_t>(x) >> 63 != 0;
  e = x != 0        ? about(0, 0)
      : is_negative ? of_class(-detail::infinite, Class::minus_infinity)
                    : of_class(detail::infinite, Class::plus_infinity);
  return true;
}

/// Where the argument is no number, the result is none, or double-double cannot hold it; false
/// elsewhere. Far out a function is its limit to much less than the formats tell.
template <Formula f>
OPBOUND_HD bool is_special(double x, Exact& e) {
  using F = Formula;
  if (x != x) {
    e = no_number();
    return true;
  }
  if constexpr (f == F::exp || f == F::exp2 || f == F::exp10 || f == F::expm1)
    return is_special_exponential(x, f == F::exp10 ? 260 : 600, f == F::expm1 ? -1 : 0, e);
  if constexpr (f == F::log || f == F::log2 || f == F::log10 || f == F::log1p || f == F::rsqrt)
    return is_special_logarithm(x, f == F::log1p ? -1 : 0, f == F::rsqrt, e);
  if constexpr (f == F::sqrt) return is_special_root(x, e);
  if constexpr (f == F::reciprocal) return is_special_reciprocal(x, e);
  if constexpr (f == F::sin || f == F::cos) {
    if (abs(x) != detail::infinite) return false;
    e = no_number();
    return true;
  }
  if constexpr (f == F::tanh || f == F::erf) {
    if (abs(x) <= 40) return false;
    e = about(x > 0 ? 1 : -1, 0x1p-100);
    return true;
  }
  if constexpr (f == F::erfc) {
    if (abs(x) <= 24) return false;
    e = x > 0 ? about(0, 0x1p-800) : about(2, 0x1p-100);
    return true;
  }
}

inline constexpr Real ln10{0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53};

template <Formula f>
OPBOUND_HD CertifiedDouble exact_value(CertifiedDouble x) {
  if constexpr (f == Formula::exp) return exp(x);
  if constexpr (f == Formula::exp2) return exp2(x);
  if constexpr (f == Formula::exp10) return exp(x * constant<CertifiedDouble>(ln10));
  if constexpr (f == Formula::expm1) return expm1(x);
  if constexpr (f == Formula::log) return log(x);
  if constexpr (f == Formula::log2) return log(x) / constant<CertifiedDouble>(ln2);
  if constexpr (f == Formula::log10) return log(x) / constant<CertifiedDouble>(ln10);
  if constexpr (f == Formula::log1p) return log1p(x);
  if constexpr (f == Formula::tanh) return tanh(x);
  if constexpr (f == Formula::erf) return erf(x);
  if constexpr (f == Formula::erfc) return erfc(x);
  if constexpr (f == Formula::sqrt) return sqrt(x);
  if constexpr (f == Formula::rsqrt) return rsqrt(x);
  if constexpr (f == Formula::reciprocal) return from<CertifiedDouble>(1.0) / x;
}

template <Formula f>
OPBOUND_HD Exact exact_of_number(double x) {
  if constexpr (f == Formula::sin)
    return sine(x, 0);
  else if constexpr (f == Formula::cos)
    return sine(x, 1);
  else
    return exact_of(exact_value<f>(from<CertifiedDouble>(x)));
}

/// Is nothing said of the function at x?
OPBOUND_HD inline bool is_unsaid(const DocumentedError& d, double x) {
  return d.ulp < 0 && d.relative == 0 && !(d.absolute > 0 && d.low <= x && x <= d.high);
}

/// |got - RN(exact)| <= k ulp(RN(exact)), so |got - exact| <= (k + 1/2) ulp(RN(exact)): next to a
/// power of two the rounded value's ulp may be twice the exact one's. What is correctly rounded is
/// within half of that one.
OPBOUND_HD inline double documented_bound(const DocumentedError& d, const Format& f, double x,
                                          double exact) {
  if (d.absolute > 0 && d.low <= x && x <= d.high) return d.absolute;
  if (exact != exact) return 0;  // only NaN will do
  const double rounded = min(abs(round_to(f, exact)), f.largest());
  // nothing is said: no number is farther away, so that errors are told and nothing is claimed
  if (is_unsaid(d, x)) return 0x1p60 * ulp(f, rounded);
  if (d.relative > 0) return max(d.relative * abs(exact), ulp(f, rounded) / 2);
  const double grown = detail::is_finite(x) ? floor(d.per_x * abs(x)) : 0;  // a limit is one
  const bool is_rounded = d.ulp == 0 && d.per_x == 0;
  return (d.ulp + grown + 0.5) * ulp(f, is_rounded ? exact : rounded);
}

template <Formula f>
OPBOUND_HD JudgedElement element_of(std::int64_t bits, float got, const Format& format,
                                    const DocumentedError& documented) {
  const double x = decode(format, static_cast<std::uint64_t>(bits));
  // No value of a bound's run: what is documented is claimed of a NaN as well. Without a gauge what
  // is not said is vacuous, and nothing else.
  JudgedElement e{got, 0, 0, {}, is_unsaid(documented, x) ? 0 : detail::infinite};
  if (!is_special<f>(x, e.exact)) e.exact = exact_of_number<f>(x);
  e.radius = documented_bound(documented, format, x, e.exact.high);
  if constexpr (f == Formula::exp || f == Formula::exp2 || f == Formula::exp10 ||
                f == Formula::erfc) {
    // what has vanished is 0: FunctionErrors and provider.h promise it, nobody documents it
    const bool has_vanished = documented.ulp >= 0 && round_to(format, e.exact.high) == 0;
    const double most = (2 * documented.ulp + 1) * e.exact.high + 2 * e.exact.radius;
    if (has_vanished) e.radius = min(e.radius, detail::up(most));
  }
  return e;
}

}  // namespace opbound::cuda_function
