// Elementary functions of Enclosure: monotone ones by their ends, sin and cos around a middle
// point.
#pragma once

#include "reference/enclosure.hpp"

namespace opbound {
namespace detail {

/// A function of one argument as MPFR declares it.
using MpfrFunction = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

inline Enclosure rising(MpfrFunction f, const Enclosure& x) {
  if (x.is_point()) return at_point(f, x);
  if (x.is_whole_line()) return x;
  return {directed(MPFR_RNDD, f, x.low()), directed(MPFR_RNDU, f, x.high())};
}

inline Enclosure falling(MpfrFunction f, const Enclosure& x) {
  if (x.is_point()) return at_point(f, x);
  if (x.is_whole_line()) return x;
  return {directed(MPFR_RNDD, f, x.high()), directed(MPFR_RNDU, f, x.low())};
}

/// f(x) of a function that vanishes at infinity only; `end` is the end of x where it is smallest.
inline Enclosure positive_at(const Mpfr& end, Enclosure f) {
  return mpfr_number_p(end.get()) != 0 ? Enclosure::nonzero(std::move(f)) : f;
}

/// Whether f, which is NaN below `edge`, is NaN for all of x, for none of it, or for a part.
enum class Domain : unsigned char { outside, inside, across };

inline Domain domain_from(long edge, const Enclosure& x) {
  if (x.is_nan() || mpfr_cmp_si(x.low().get(), edge) >= 0) return Domain::inside;
  return mpfr_cmp_si(x.high().get(), edge) < 0 ? Domain::outside : Domain::across;
}

/// rule(f, x), rising or falling, where f is NaN below `edge`.
inline Enclosure from_edge_on(long edge, Enclosure (*rule)(MpfrFunction, const Enclosure&),
                              MpfrFunction f, const Enclosure& x) {
  switch (domain_from(edge, x)) {
    case Domain::outside:
      return Enclosure::nan();
    case Domain::across:
      return Enclosure::whole_line();
    case Domain::inside:
      break;
  }
  return rule(f, x);
}

/// sin or cos: at points themselves, elsewhere by |f'| <= 1 around a middle point. Past 2^4096, far
/// beyond every stored format, reducing the angle would cost more than [-1, 1] is worth.
inline Enclosure circular(MpfrFunction f, const Enclosure& x) {
  constexpr mpfr_exp_t exponent_max = 4096;
  if (x.is_nan() || x.is_whole_line()) return x;
  if (x.is_point() && mpfr_inf_p(x.low().get()) != 0) return Enclosure::nan();
  if (x.has_infinite_end()) return Enclosure::whole_line();
  const Mpfr one = from<Mpfr>(1.0);
  const auto is_huge = [](const Mpfr& v) {
    return mpfr_zero_p(v.get()) == 0 && mpfr_get_exp(v.get()) > exponent_max;
  };
  if (is_huge(x.low()) || is_huge(x.high())) return {-one, one};
  if (x.is_point()) return at_point(f, x);
  const Mpfr middle = (x.low() + x.high()) / from<Mpfr>(2.0);
  const Mpfr radius = max(directed(MPFR_RNDU, mpfr_sub, x.high(), middle),
                          directed(MPFR_RNDU, mpfr_sub, middle, x.low()));
  return {max(-one, directed(MPFR_RNDD, mpfr_sub, directed(MPFR_RNDD, f, middle), radius)),
          min(one, directed(MPFR_RNDU, mpfr_add, directed(MPFR_RNDU, f, middle), radius))};
}

}  // namespace detail

inline Enclosure exp(const Enclosure& x) {
  return detail::positive_at(x.low(), detail::rising(mpfr_exp, x));
}
inline Enclosure exp2(const Enclosure& x) {
  return detail::positive_at(x.low(), detail::rising(mpfr_exp2, x));
}
inline Enclosure expm1(const Enclosure& x) { return detail::rising(mpfr_expm1, x); }
inline Enclosure tanh(const Enclosure& x) { return detail::rising(mpfr_tanh, x); }
inline Enclosure erf(const Enclosure& x) { return detail::rising(mpfr_erf, x); }
inline Enclosure erfc(const Enclosure& x) {
  return detail::positive_at(x.high(), detail::falling(mpfr_erfc, x));
}
inline Enclosure sin(const Enclosure& x) { return detail::circular(mpfr_sin, x); }
inline Enclosure cos(const Enclosure& x) { return detail::circular(mpfr_cos, x); }

inline Enclosure sqrt(const Enclosure& x) {
  if (x.fraction() != nullptr)
    if (auto root = detail::root(*x.fraction())) return Enclosure::of(*std::move(root));
  return detail::from_edge_on(0, detail::rising, mpfr_sqrt, x);
}
inline Enclosure log(const Enclosure& x) {
  return detail::from_edge_on(0, detail::rising, mpfr_log, x);
}
inline Enclosure log1p(const Enclosure& x) {
  return detail::from_edge_on(-1, detail::rising, mpfr_log1p, x);
}
/// 1 / sqrt(x); at a zero an infinity of its sign, as in IEEE 754-2019, so that an interval which
/// contains 0 gives the whole line, as in a division.
inline Enclosure rsqrt(const Enclosure& x) {
  if (!x.is_nan() && x.contains_zero()) return from<Enclosure>(1.0) / x;
  return detail::from_edge_on(0, detail::falling, mpfr_rec_sqrt, x);
}

template <>
inline Enclosure pi<Enclosure>() {
  Mpfr high = detail::directed(MPFR_RNDU, mpfr_const_pi);
  return {detail::directed(MPFR_RNDD, mpfr_const_pi), std::move(high)};
}

}  // namespace opbound
