// Exact quotients of two binary numbers.
//
// g (m / n) may be a binary number, or a tie, where m / n is neither: intervals around m / n get
// narrower with every bit and never decide. As long as numerator and denominator are exact at the
// working precision, the value is known as a fraction, and its last division shows what it is.
#pragma once

#include <optional>

#include "reference/mpfr.hpp"

namespace opbound {

/// numerator / denominator, both exact and finite, denominator > 0.
struct Fraction {
  Mpfr numerator;
  Mpfr denominator;
};

namespace detail {

/// f(operands), if that is a number and exact at the working precision.
template <class F, class... Operands>
std::optional<Mpfr> exactly(F f, const Operands&... operands) {
  Mpfr result = Mpfr::uninitialised(working_precision_bits);
  const int ternary = f(result.get(), operands.get()..., MPFR_RNDN);
  if (ternary != 0 || mpfr_number_p(result.get()) == 0) return {};
  return result;
}

inline std::optional<Fraction> fraction_of(std::optional<Mpfr> numerator,
                                           std::optional<Mpfr> denominator) {
  if (!numerator || !denominator) return {};
  return Fraction{*std::move(numerator), *std::move(denominator)};
}

inline std::optional<Fraction> sum(const Fraction& a, const Fraction& b) {
  if (mpfr_equal_p(a.denominator.get(), b.denominator.get()) != 0)
    return fraction_of(exactly(mpfr_add, a.numerator, b.numerator), a.denominator);
  const auto left = exactly(mpfr_mul, a.numerator, b.denominator);
  const auto right = exactly(mpfr_mul, b.numerator, a.denominator);
  if (!left || !right) return {};
  return fraction_of(exactly(mpfr_add, *left, *right),
                     exactly(mpfr_mul, a.denominator, b.denominator));
}

inline Fraction negative(const Fraction& x) { return {-x.numerator, x.denominator}; }

inline std::optional<Fraction> product(const Fraction& a, const Fraction& b) {
  return fraction_of(exactly(mpfr_mul, a.numerator, b.numerator),
                     exactly(mpfr_mul, a.denominator, b.denominator));
}

/// None for b = 0.
inline std::optional<Fraction> quotient(const Fraction& a, const Fraction& b) {
  const int sign = mpfr_sgn(b.numerator.get());
  if (sign == 0) return {};
  const Fraction upright =
      sign < 0 ? Fraction{-b.denominator, -b.numerator} : Fraction{b.denominator, b.numerator};
  return product(a, upright);
}

/// sqrt(n / d) = sqrt(n d) / d, if n d is a square.
inline std::optional<Fraction> root(const Fraction& x) {
  const auto square = exactly(mpfr_mul, x.numerator, x.denominator);
  if (!square || mpfr_sgn(square->get()) < 0) return {};
  return fraction_of(exactly(mpfr_sqrt, *square), x.denominator);
}

}  // namespace detail
}  // namespace opbound
