// Enclosure: an interval with MPFR ends that certainly contains the exact value.
//
// The law: for points inside the operands, the exact result is inside the result. Every lower end
// is rounded down and every upper end up, at the working precision (reference/mpfr.hpp).
//  - A point (low == high) is the exact value itself; operations on points follow IEEE 754-2019
//    with its infinities, NaN and signed zeros, and are points where the result is exact.
//  - A NaN enclosure says that the definition's value is NaN.
//  - The whole line says that nothing is known, not even that the value is a number: an operation
//    that is NaN for some points of its operands and a number for others gives it, and every
//    operation keeps it.
//  - Beside its ends an enclosure may know that the value is a certain fraction, or that it is not
//    the 0 at its end: exp(-1e30) lies in (0, 2^-4611686018427387905].
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "reference/exact.hpp"
#include "reference/fraction.hpp"
#include "reference/mpfr.hpp"

namespace opbound {

class Enclosure {
 public:
  /// The point 0.
  Enclosure() = default;
  /// [low, high], or NaN if both are.
  Enclosure(Mpfr low, Mpfr high) : low_(std::move(low)), high_(std::move(high)) {
    assert(mpfr_lessequal_p(low_.get(), high_.get()) != 0 || (opbound::is_nan(low_) && is_nan()));
  }

  static Enclosure nan();
  static Enclosure whole_line();
  /// The tightest one of a fraction; a point where it is a number of the working precision.
  static Enclosure of(Fraction x);
  /// x, of which more is known than its ends: the value is not 0. Of an interval with numbers of
  /// both signs, such as the whole line, that says nothing.
  static Enclosure nonzero(Enclosure x) {
    x.is_nonzero_ = mpfr_sgn(x.low_.get()) >= 0 || mpfr_sgn(x.high_.get()) <= 0;
    return x;
  }

  const Mpfr& low() const { return low_; }
  const Mpfr& high() const { return high_; }

  bool is_nan() const { return opbound::is_nan(high_); }
  bool is_point() const { return mpfr_equal_p(low_.get(), high_.get()) != 0; }
  bool is_whole_line() const {
    return has_infinite_end() && mpfr_inf_p(low_.get()) != 0 && mpfr_inf_p(high_.get()) != 0 &&
           !is_point();
  }
  bool has_infinite_end() const {
    return mpfr_inf_p(low_.get()) != 0 || mpfr_inf_p(high_.get()) != 0;
  }
  bool contains_zero() const { return mpfr_sgn(low_.get()) <= 0 && mpfr_sgn(high_.get()) >= 0; }
  /// Whether the value is certainly not 0.
  bool is_nonzero() const { return is_nonzero_ || !contains_zero(); }
  /// Null where the value is a point or not known as a fraction.
  const Fraction* fraction() const { return fraction_.get(); }
  bool contains(const Mpfr& x) const {
    return mpfr_lessequal_p(low_.get(), x.get()) != 0 &&
           mpfr_lessequal_p(x.get(), high_.get()) != 0;
  }

 private:
  Mpfr low_;
  Mpfr high_;
  std::shared_ptr<const Fraction> fraction_;
  bool is_nonzero_ = false;
};

namespace detail {

/// f(operands) at the working precision in one rounding mode.
template <class F, class... Operands>
Mpfr directed(mpfr_rnd_t rounding, F f, const Operands&... operands) {
  Mpfr result = Mpfr::uninitialised(working_precision_bits);
  f(result.get(), operands.get()..., rounding);
  return result;
}

/// f at points: evaluated once and rounded up, so that x - x is +0 as IEEE 754-2019 has it; where
/// MPFR's ternary value says that this was inexact, the exact value lies above the number below.
template <class F, class... Numbers>
Enclosure at_numbers(F f, const Numbers&... numbers) {
  Mpfr high = Mpfr::uninitialised(working_precision_bits);
  const int ternary = f(high.get(), numbers.get()..., MPFR_RNDU);
  Mpfr low = high;
  if (ternary != 0) mpfr_nextbelow(low.get());
  return {std::move(low), std::move(high)};
}
template <class F, class... Points>
Enclosure at_point(F f, const Points&... points) {
  return at_numbers(f, points.high()...);
}

/// x as a fraction, if it is known as one: a finite point is one.
inline std::optional<Fraction> fraction_of(const Enclosure& x) {
  if (x.fraction() != nullptr) return *x.fraction();
  if (!x.is_point() || x.has_infinite_end()) return {};
  return Fraction{x.high(), from<Mpfr>(1.0)};
}

/// rule(a, b), if both are known as fractions and not both are points.
inline std::optional<Fraction> combined(std::optional<Fraction> (*rule)(const Fraction&,
                                                                        const Fraction&),
                                        const Enclosure& a, const Enclosure& b) {
  if (a.fraction() == nullptr && b.fraction() == nullptr) return {};
  const auto left = fraction_of(a), right = fraction_of(b);
  return left && right ? rule(*left, *right) : std::nullopt;
}

/// A sum's ends; infinity - infinity at one end only means that nothing is known.
inline Enclosure sum_of_ends(Mpfr low, Mpfr high, const Enclosure& a, const Enclosure& b) {
  if (a.is_nan() || b.is_nan()) return Enclosure::nan();
  if (is_nan(low) || is_nan(high)) return Enclosure::whole_line();
  return {std::move(low), std::move(high)};
}

inline bool is_nonnegative(const Enclosure& x) { return mpfr_sgn(x.low().get()) >= 0; }
inline bool is_nonpositive(const Enclosure& x) { return mpfr_sgn(x.high().get()) <= 0; }

/// The end of x that the product's upper (or lower) end is made of; not for two factors of mixed
/// sign. A factor of constant sign is a monotone map of x; under one of mixed sign x's end of the
/// larger magnitude makes both ends.
inline const Mpfr& factor_end(const Enclosure& x, const Enclosure& other, bool is_upper) {
  if (is_nonnegative(other)) return is_upper ? x.high() : x.low();
  if (is_nonpositive(other)) return is_upper ? x.low() : x.high();
  return is_nonnegative(x) ? x.high() : x.low();
}

inline bool has_mixed_sign(const Enclosure& x) { return !is_nonnegative(x) && !is_nonpositive(x); }

/// x^2 for an interval that is not a point: both factors are the same number.
inline Enclosure square(const Enclosure& x) {
  if (x.is_whole_line() || x.is_nan()) return x;
  if (has_mixed_sign(x)) {
    return {Mpfr(),
            max(directed(MPFR_RNDU, mpfr_sqr, x.low()), directed(MPFR_RNDU, mpfr_sqr, x.high()))};
  }
  const Mpfr& smaller = is_nonnegative(x) ? x.low() : x.high();
  const Mpfr& larger = is_nonnegative(x) ? x.high() : x.low();
  return {directed(MPFR_RNDD, mpfr_sqr, smaller), directed(MPFR_RNDU, mpfr_sqr, larger)};
}

inline bool is_infinity(const Enclosure& x) { return x.is_point() && x.has_infinite_end(); }

/// An infinity with the sign that a's and b's signs give.
inline Enclosure infinity_of(const Enclosure& a, const Enclosure& b) {
  const Enclosure infinity = at_numbers(mpfr_set, from<Mpfr>(HUGE_VAL));
  const bool is_minus = is_nonnegative(a) != is_nonnegative(b);
  return is_minus ? at_point(mpfr_neg, infinity) : infinity;
}

inline Enclosure product_of_intervals(const Enclosure& a, const Enclosure& b) {
  if (a.is_nan() || b.is_nan()) return Enclosure::nan();
  if ((is_infinity(a) && b.is_nonzero()) || (is_infinity(b) && a.is_nonzero()))
    return infinity_of(a, b);
  if ((a.has_infinite_end() && b.contains_zero()) || (b.has_infinite_end() && a.contains_zero()))
    return Enclosure::whole_line();
  if (has_mixed_sign(a) && has_mixed_sign(b)) {
    return {min(directed(MPFR_RNDD, mpfr_mul, a.low(), b.high()),
                directed(MPFR_RNDD, mpfr_mul, a.high(), b.low())),
            max(directed(MPFR_RNDU, mpfr_mul, a.low(), b.low()),
                directed(MPFR_RNDU, mpfr_mul, a.high(), b.high()))};
  }
  return {directed(MPFR_RNDD, mpfr_mul, factor_end(a, b, false), factor_end(b, a, false)),
          directed(MPFR_RNDU, mpfr_mul, factor_end(a, b, true), factor_end(b, a, true))};
}

/// a / 0 for a that is not a point: an infinity if a's and the zero's sign are certain.
inline Enclosure quotient_by_zero(const Enclosure& a, const Enclosure& b) {
  const bool has_one_sign =
      b.is_point() && mpfr_signbit(b.low().get()) == mpfr_signbit(b.high().get());
  if (!has_one_sign || a.contains_zero()) return Enclosure::whole_line();
  const Mpfr infinity = a.high() / b.high();
  return {infinity, infinity};
}

inline Enclosure quotient_of_intervals(const Enclosure& a, const Enclosure& b) {
  if (a.is_nan() || b.is_nan()) return Enclosure::nan();
  if (b.contains_zero()) return quotient_by_zero(a, b);
  if (a.has_infinite_end() && b.has_infinite_end()) return Enclosure::whole_line();
  // a / b rises with a for b > 0 and falls for b < 0; the divisor that makes a quotient of one sign
  // extreme is the one closest to 0 or farthest from it.
  const bool rises = is_nonnegative(b);
  const Mpfr& a_low = rises ? a.low() : a.high();
  const Mpfr& a_high = rises ? a.high() : a.low();
  const Mpfr& b_low = mpfr_sgn(a_low.get()) >= 0 ? b.high() : b.low();
  const Mpfr& b_high = mpfr_sgn(a_high.get()) >= 0 ? b.low() : b.high();
  return {directed(MPFR_RNDD, mpfr_div, a_low, b_low),
          directed(MPFR_RNDU, mpfr_div, a_high, b_high)};
}

}  // namespace detail

inline Enclosure Enclosure::nan() {
  const Mpfr nan = Mpfr::uninitialised(working_precision_bits);
  return {nan, nan};
}

inline Enclosure Enclosure::whole_line() {
  Enclosure result;
  mpfr_set_inf(result.low_.get(), -1);
  mpfr_set_inf(result.high_.get(), 1);
  return result;
}

inline Enclosure Enclosure::of(Fraction x) {
  Enclosure result = detail::at_numbers(mpfr_div, x.numerator, x.denominator);
  if (!result.is_point()) result.fraction_ = std::make_shared<const Fraction>(std::move(x));
  return result;
}

inline Enclosure operator-(const Enclosure& x) {
  if (x.fraction() != nullptr) return Enclosure::of(detail::negative(*x.fraction()));
  Enclosure result{detail::directed(MPFR_RNDD, mpfr_neg, x.high()),
                   detail::directed(MPFR_RNDU, mpfr_neg, x.low())};
  return x.is_nonzero() ? Enclosure::nonzero(std::move(result)) : result;
}

inline Enclosure operator+(const Enclosure& a, const Enclosure& b) {
  if (a.is_point() && b.is_point()) return detail::at_point(mpfr_add, a, b);
  if (auto sum = detail::combined(detail::sum, a, b)) return Enclosure::of(*std::move(sum));
  return detail::sum_of_ends(detail::directed(MPFR_RNDD, mpfr_add, a.low(), b.low()),
                             detail::directed(MPFR_RNDU, mpfr_add, a.high(), b.high()), a, b);
}

inline Enclosure operator-(const Enclosure& a, const Enclosure& b) {
  if (a.is_point() && b.is_point()) return detail::at_point(mpfr_sub, a, b);
  if (a.fraction() != nullptr || b.fraction() != nullptr) return a + (-b);
  return detail::sum_of_ends(detail::directed(MPFR_RNDD, mpfr_sub, a.low(), b.high()),
                             detail::directed(MPFR_RNDU, mpfr_sub, a.high(), b.low()), a, b);
}

/// A product of an object with itself is a square: never below 0.
inline Enclosure operator*(const Enclosure& a, const Enclosure& b) {
  if (a.is_point() && b.is_point()) return detail::at_point(mpfr_mul, a, b);
  if (auto exact = detail::combined(detail::product, a, b)) return Enclosure::of(*std::move(exact));
  Enclosure result = &a == &b ? detail::square(a) : detail::product_of_intervals(a, b);
  return a.is_nonzero() && b.is_nonzero() ? Enclosure::nonzero(std::move(result)) : result;
}

/// Division by an interval that contains 0, and not only 0, gives the whole line.
inline Enclosure operator/(const Enclosure& a, const Enclosure& b) {
  if (a.is_point() && b.is_point()) {
    const auto dividend = detail::fraction_of(a), divisor = detail::fraction_of(b);
    if (dividend && divisor)
      if (auto exact = detail::quotient(*dividend, *divisor))
        return Enclosure::of(*std::move(exact));
    return detail::at_point(mpfr_div, a, b);
  }
  if (auto exact = detail::combined(detail::quotient, a, b))
    return Enclosure::of(*std::move(exact));
  Enclosure result = detail::quotient_of_intervals(a, b);
  const bool is_nonzero = a.is_nonzero() && !b.contains_zero() && !b.has_infinite_end();
  return is_nonzero ? Enclosure::nonzero(std::move(result)) : result;
}

template <>
struct Conversion<Enclosure> {
  static Enclosure from(double x) {
    Mpfr high = Mpfr::uninitialised(working_precision_bits);
    const int ternary = mpfr_set_d(high.get(), x, MPFR_RNDU);
    Mpfr low = high;
    if (ternary != 0) mpfr_nextbelow(low.get());
    return {std::move(low), std::move(high)};
  }
  /// The real constant itself, which r tells to 106 bits: from |s - exact| <= 2^-106 |exact| with
  /// s = high + low follows |s - exact| <= 2^-106 |s| / (1 - 2^-106) <= 2^-106 (1 + 2^-52) |s|.
  static Enclosure from(Real r) {
    const Enclosure sum = from(r.high) + from(r.low);
    const Mpfr bound = detail::directed(MPFR_RNDU, mpfr_mul, max(abs(sum.low()), abs(sum.high())),
                                        Conversion<Mpfr>::from(0x1.0000000000001p-106));
    return {detail::directed(MPFR_RNDD, mpfr_sub, sum.low(), bound),
            detail::directed(MPFR_RNDU, mpfr_add, sum.high(), bound)};
  }
};

inline Enclosure fma(const Enclosure& a, const Enclosure& b, const Enclosure& c) {
  if (a.is_point() && b.is_point() && c.is_point()) return detail::at_point(mpfr_fma, a, b, c);
  return a * b + c;
}

inline Enclosure abs(const Enclosure& x) {
  if (x.is_nan() || x.is_whole_line()) return x;
  if (!is_negative(x.low())) return x.is_point() ? detail::at_point(mpfr_abs, x) : x;
  if (detail::is_nonpositive(x)) return -x;
  return {Mpfr(), max(detail::directed(MPFR_RNDU, mpfr_neg, x.low()), x.high())};
}

namespace detail {
/// Certainly a >= b? Equal fractions need not have the same numerator.
inline bool is_at_least(const Enclosure& a, const Enclosure& b) {
  if (mpfr_greaterequal_p(a.low().get(), b.high().get()) != 0) return true;
  const auto difference = b.fraction() == nullptr ? std::nullopt : combined(sum, a, -b);
  return difference && mpfr_sgn(difference->numerator.get()) >= 0;
}
}  // namespace detail

inline Enclosure max(const Enclosure& a, const Enclosure& b) {
  if (a.is_nan() || b.is_nan()) return Enclosure::nan();
  if (a.is_whole_line() || b.is_whole_line()) return Enclosure::whole_line();
  if (detail::is_at_least(a, b)) return a;
  if (detail::is_at_least(b, a)) return b;
  return {max(a.low(), b.low()), max(a.high(), b.high())};
}

inline Enclosure min(const Enclosure& a, const Enclosure& b) {
  if (a.is_nan() || b.is_nan()) return Enclosure::nan();
  if (a.is_whole_line() || b.is_whole_line()) return Enclosure::whole_line();
  if (detail::is_at_least(b, a)) return a;
  if (detail::is_at_least(a, b)) return b;
  return {min(a.low(), b.low()), min(a.high(), b.high())};
}

inline Enclosure pivot(const Enclosure& x) { return x; }
inline Enclosure stored_in(const Format&, const Enclosure& x) { return x; }

/// Whether x < 0, for points and NaN: what is not known exactly decides no branch.
inline bool is_negative(const Enclosure& x) {
  assert(x.is_point() || x.is_nan());
  return is_negative(x.high());
}

/// Where x may be on either side of 0, what contains both.
inline Enclosure where_negative(const Enclosure& x, const Enclosure& a, const Enclosure& b) {
  if (x.is_nan() || detail::is_nonnegative(x)) return b;
  if (is_negative(x.high())) return a;
  if (a.is_nan() || b.is_nan()) return Enclosure::whole_line();
  return {min(a.low(), b.low()), max(a.high(), b.high())};
}

/// What is known, as doubles: high + low is the middle, the radius reaches both ends. low is
/// rounded toward 0, so that high = RN(high + low).
inline Exact exact_of(const Enclosure& x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double largest = std::numeric_limits<double>::max();
  using enum Exact::Class;
  if (x.is_nan()) return {std::numeric_limits<double>::quiet_NaN(), 0, 0, nan};
  if (x.is_point() && x.has_infinite_end()) {
    const bool is_minus = is_negative(x);
    return {is_minus ? -infinity : infinity, 0, 0, is_minus ? minus_infinity : plus_infinity};
  }
  if (to_double(x.low()) == infinity) return {largest, 0, infinity, beyond_double};
  if (to_double(x.high()) == -infinity) return {-largest, 0, infinity, beyond_double};
  if (x.has_infinite_end()) return {0, 0, infinity, finite};

  // With 64 bits to spare the middle of a point is the point, and the differences are exact.
  const PrecisionScope scope(64 +
                             std::max(mpfr_get_prec(x.low().get()), mpfr_get_prec(x.high().get())));
  const Mpfr middle = (x.low() + x.high()) / from<Mpfr>(2.0);
  const double nearest = to_double(middle);
  const double high = std::max(-largest, std::min(largest, nearest));
  const double low = nearest == high ? mpfr_get_d((middle - from<Mpfr>(high)).get(), MPFR_RNDZ) : 0;
  const auto up_to_double = [](const Mpfr& v) { return mpfr_get_d(v.get(), MPFR_RNDU); };
  const Mpfr center_high = from<Mpfr>(high);
  const Mpfr center_low = from<Mpfr>(low);
  const Mpfr above =
      detail::directed(MPFR_RNDU, mpfr_sub,
                       detail::directed(MPFR_RNDU, mpfr_sub, x.high(), center_high), center_low);
  const Mpfr below = detail::directed(
      MPFR_RNDU, mpfr_add, detail::directed(MPFR_RNDU, mpfr_sub, center_high, x.low()), center_low);
  return {high, low, std::max(up_to_double(above), up_to_double(below)), finite};
}

/// A value without an error of its own, as every reference reports it.
inline Exact exact_of(const Mpfr& x) { return exact_of(Enclosure(x, x)); }

/// Some value of the interval, for gauges and other estimates.
inline double to_double(const Enclosure& x) { return to_double(x.high()); }

}  // namespace opbound

#include "reference/enclosure_functions.hpp"  // IWYU pragma: export

namespace opbound {
static_assert(Number<Enclosure>);
}
