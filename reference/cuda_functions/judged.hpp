// One result of one of CUDA's functions with what judges it, on the host and on the device.
#pragma once

#include <bit>

#include "bounds/judged.hpp"
#include "bounds/tracked_double_double.hpp"
#include "reference/cuda_functions.hpp"
#include "reference/double_double_functions.hpp"

namespace opbound::cuda_function {

/// value +- radius: less than any fp32 result needs to be told, where it is near 0, 1 or 2; or that
/// it overflows.
OPBOUND_HD inline Exact about(double value, double radius) { return {value, 0, radius, {}}; }

OPBOUND_HD inline Exact of_class(double value, Exact::Class kind) { return {value, 0, 0, kind}; }

/// Of exp, exp2 and expm1, where double-double cannot hold them.
OPBOUND_HD inline bool is_special_exponential(double x, double lowest, Exact& e) {
  if (x == detail::infinite) {
    e = of_class(x, Exact::Class::plus_infinity);
    return true;
  }
  if (abs(x) <= 600) return false;
  e = x > 0 ? about(0x1p800, 0x1p799) : about(lowest, 0x1p-500);
  return true;
}

/// Of log, log1p and rsqrt, whose arguments end at `end`; rsqrt falls from infinity to 0.
OPBOUND_HD inline bool is_special_logarithm(double x, double end, bool falls, Exact& e) {
  using Class = Exact::Class;
  constexpr double infinity = detail::infinite;
  if (x > end && x != infinity) return false;
  if (x < end)
    e = of_class(x, Class::nan);
  else if (x == infinity)
    e = falls ? about(0, 0) : of_class(x, Class::plus_infinity);
  else if (falls && std::bit_cast<std::uint64_t>(x) >> 63 == 0)
    e = of_class(infinity, Class::plus_infinity);
  else
    e = of_class(-infinity, Class::minus_infinity);
  return true;
}

/// Where the argument is no number, the result is none, or double-double cannot hold it; false
/// elsewhere. Far out a function is its limit to much less than the formats tell.
template <Function f>
OPBOUND_HD bool is_special(double x, Exact& e) {
  if (x != x) {
    e = of_class(x, Exact::Class::nan);
    return true;
  }
  if constexpr (f == Function::exp || f == Function::exp2 || f == Function::expm1)
    return is_special_exponential(x, f == Function::expm1 ? -1 : 0, e);
  if constexpr (f == Function::log || f == Function::log1p || f == Function::rsqrt)
    return is_special_logarithm(x, f == Function::log1p ? -1 : 0, f == Function::rsqrt, e);
  if constexpr (f == Function::tanh || f == Function::erf) {
    if (abs(x) <= 40) return false;
    e = about(x > 0 ? 1 : -1, 0x1p-100);
    return true;
  }
  if constexpr (f == Function::erfc) {
    if (abs(x) <= 24) return false;
    e = x > 0 ? about(0, 0x1p-800) : about(2, 0x1p-100);
    return true;
  }
}

template <Function f>
OPBOUND_HD CertifiedDouble exact_value(CertifiedDouble x) {
  if constexpr (f == Function::exp) return exp(x);
  if constexpr (f == Function::exp2) return exp2(x);
  if constexpr (f == Function::expm1) return expm1(x);
  if constexpr (f == Function::log) return log(x);
  if constexpr (f == Function::log1p) return log1p(x);
  if constexpr (f == Function::tanh) return tanh(x);
  if constexpr (f == Function::erf) return erf(x);
  if constexpr (f == Function::erfc) return erfc(x);
  if constexpr (f == Function::rsqrt) return rsqrt(x);
}

/// |got - RN(exact)| <= k ulp(RN(exact)), so |got - exact| <= (k + 1/2) ulp(RN(exact)): next to a
/// power of two the rounded value's ulp may be twice the exact one's.
OPBOUND_HD inline double documented_bound(const DocumentedError& d, const Format& f, double x,
                                          double exact) {
  if (d.absolute > 0 && d.low <= x && x <= d.high) return d.absolute;
  if (exact != exact) return 0;  // only NaN will do
  const double rounded = min(abs(round_to(f, exact)), f.largest());
  // nothing is said: no number is farther away, so that errors are told and nothing is claimed
  if (d.ulp < 0) return 0x1p60 * ulp(f, rounded);
  const double grown = detail::is_finite(x) ? floor(d.per_x * abs(x)) : 0;  // a limit is one
  return (d.ulp + grown + 0.5) * ulp(f, rounded);
}

template <Function f>
OPBOUND_HD JudgedElement element_of(std::int64_t bits, float got, const Format& format,
                                    const DocumentedError& documented) {
  const double x = decode(format, static_cast<std::uint64_t>(bits));
  // no value of a bound's run: what is documented is claimed of a NaN as well
  JudgedElement e{got, 0, 0, {}, detail::infinite};
  if (!is_special<f>(x, e.exact)) e.exact = exact_of(exact_value<f>(from<CertifiedDouble>(x)));
  e.radius = documented_bound(documented, format, x, e.exact.high);
  if constexpr (f == Function::exp || f == Function::exp2 || f == Function::erfc) {
    // what has vanished is 0: FunctionErrors and provider.h promise it, nobody documents it
    const bool has_vanished = documented.ulp >= 0 && round_to(format, e.exact.high) == 0;
    const double most = (2 * documented.ulp + 1) * e.exact.high + 2 * e.exact.radius;
    if (has_vanished) e.radius = min(e.radius, detail::up(most));
  }
  return e;
}

}  // namespace opbound::cuda_function
