// Number types that kernels run over, and the functions a kernel may call on any of them.
//
// Here: float, double and Rounded<F>, whose every operation is rounded once to F. Elsewhere:
// Tracked (bounds), Mpfr and Enclosure (reference), DoubleDouble (reference). A kernel calls these
// functions unqualified.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "ops/elementary.hpp"
#include "ops/format.hpp"
#include "ops/odd.hpp"
#include "ops/portable.hpp"
#include "ops/real.hpp"

namespace opbound {

/// How a number type is made from a double or a real constant, and read back. Specialised per type.
///   static T from(double)    rounded once to the type
///   static T from(Real)      rounded once to the type
template <class T>
struct Conversion;

/// x rounded once to T; exact where T holds x.
template <class T>
OPBOUND_HD T from(double x) {
  return Conversion<T>::from(x);
}

/// A real constant rounded once to T.
template <class T>
OPBOUND_HD T constant(Real r) {
  return Conversion<T>::from(r);
}

/// |x| as a double, for gauges and other estimates.
template <class T>
OPBOUND_HD double magnitude(const T& x) {
  return std::bit_cast<double>(detail::magnitude_bits(to_double(x)));
}

// ---- float and double

OPBOUND_HD inline double to_double(double x) { return x; }
OPBOUND_HD inline double to_double(float x) { return x; }

OPBOUND_HD inline double sqrt(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}
OPBOUND_HD inline float sqrt(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

template <std::floating_point T>
OPBOUND_HD T abs(T x) {
  return static_cast<T>(std::bit_cast<double>(detail::magnitude_bits(x)));
}

/// The larger one; NaN if either is NaN.
template <std::floating_point T>
OPBOUND_HD T max(T a, T b) {
  return a < b || b != b ? b : a;
}
/// The smaller one; NaN if either is NaN.
template <std::floating_point T>
OPBOUND_HD T min(T a, T b) {
  return b < a || b != b ? b : a;
}

/// A value that the exact result does not depend on (softmax's maximum, a centring mean): Tracked
/// drops its radius.
template <std::floating_point T>
OPBOUND_HD T pivot(T x) {
  return x;
}

/// Whether x < 0. Tracked allows it on exact values only: branches may not hang on rounded ones.
template <std::floating_point T>
OPBOUND_HD bool is_negative(T x) {
  return x < 0;
}

/// Whether a kernel uses its form for negative x, of two forms of one and the same real function:
/// either is right, so Tracked asks less than is_negative does.
template <class T>
OPBOUND_HD bool takes_negative_form(T x) {
  return is_negative(x);
}

/// x as it is read again after it was stored in format f: rounded there, unchanged over the reals.
template <std::floating_point T>
OPBOUND_HD T stored_in(const Format& f, T x) {
  if (f.kind == Kind::fp64) return x;
  return static_cast<T>(round_to(f, static_cast<double>(x)));
}

/// The same, rounded up with a probability that a random word decides (round_stochastic); reals,
/// which this general form is for, stay as they are.
template <class T>
OPBOUND_HD T stored_stochastically_in(const Format&, const T& x, std::uint32_t) {
  return x;
}
template <std::floating_point T>
OPBOUND_HD T stored_stochastically_in(const Format& f, const T& x, std::uint32_t random) {
  return static_cast<T>(round_stochastic(f, static_cast<double>(x), random));
}

/// a where x < 0, else b. Any x will do: where its sign is not certain, Tracked and Enclosure
/// answer for both.
template <class T>
OPBOUND_HD T where_negative(const T& x, const T& a, const T& b) {
  return is_negative(x) ? a : b;
}

template <>
struct Conversion<double> {
  OPBOUND_HD static double from(double x) { return x; }
  OPBOUND_HD static double from(Real r) { return r.high; }
};

template <>
struct Conversion<float> {
  OPBOUND_HD static float from(double x) { return static_cast<float>(x); }
  OPBOUND_HD static float from(Real r) {
    return static_cast<float>(detail::round_to_odd(r.high, r.low));
  }
};

// ---- Rounded

/// A value of format F (at most fp32's range and 11 digits), every operation rounded once to
/// nearest even.
///
/// + - * / and sqrt are done in float, or in double for tf32, whose subnormal products float does
/// not hold, and rounded again: exact by Figueroa 1995 (the wider precision has at least 2 p + 2
/// digits) and by the exhaustive tests. A fused multiply-add needs more: exact product, sum rounded
/// to odd, then one rounding (Boldo and Melquiond 2008).
template <Format F>
struct Rounded {
  static_assert(F.digits <= 11);
  static constexpr Format format = F;
  using Wide = std::conditional_t<F.kind == Kind::tf32, double, float>;

  float value = 0;

  OPBOUND_HD static Rounded of(double x) { return {static_cast<float>(round_to(F, x))}; }
  OPBOUND_HD Wide wide() const { return value; }

  OPBOUND_HD friend Rounded operator+(Rounded a, Rounded b) { return of(a.wide() + b.wide()); }
  OPBOUND_HD friend Rounded operator-(Rounded a, Rounded b) { return of(a.wide() - b.wide()); }
  OPBOUND_HD friend Rounded operator*(Rounded a, Rounded b) { return of(a.wide() * b.wide()); }
  OPBOUND_HD friend Rounded operator/(Rounded a, Rounded b) { return of(a.wide() / b.wide()); }
  OPBOUND_HD friend Rounded operator-(Rounded a) { return {-a.value}; }
};

template <Format F>
OPBOUND_HD double to_double(Rounded<F> x) {
  return x.value;
}
template <Format F>
OPBOUND_HD Rounded<F> sqrt(Rounded<F> x) {
  return Rounded<F>::of(sqrt(x.wide()));
}
template <Format F>
OPBOUND_HD Rounded<F> fma(Rounded<F> a, Rounded<F> b, Rounded<F> c) {
  const double product = static_cast<double>(a.value) * static_cast<double>(b.value);
  return Rounded<F>::of(detail::round_to_odd(product, static_cast<double>(c.value)));
}
template <Format F>
OPBOUND_HD Rounded<F> abs(Rounded<F> x) {
  return {abs(x.value)};
}
template <Format F>
OPBOUND_HD Rounded<F> max(Rounded<F> a, Rounded<F> b) {
  return {max(a.value, b.value)};
}
template <Format F>
OPBOUND_HD Rounded<F> min(Rounded<F> a, Rounded<F> b) {
  return {min(a.value, b.value)};
}
template <Format F>
OPBOUND_HD Rounded<F> pivot(Rounded<F> x) {
  return x;
}
template <Format F>
OPBOUND_HD bool is_negative(Rounded<F> x) {
  return x.value < 0;
}
template <Format F>
OPBOUND_HD Rounded<F> stored_in(const Format& f, Rounded<F> x) {
  return Rounded<F>::of(round_to(f, to_double(x)));
}

template <Format F>
OPBOUND_HD Rounded<F> stored_stochastically_in(const Format& f, Rounded<F> x,
                                               std::uint32_t random) {
  return Rounded<F>::of(round_stochastic(f, to_double(x), random));
}

// An elementary function of a low format is the true value rounded: the double function is close
// enough that rounding it rounds the true value, for every input of a 16-bit format
// (tests/test_elementary.cpp).
#define OPBOUND_ROUNDED_FUNCTION(f)         \
  template <Format F>                       \
  OPBOUND_HD Rounded<F> f(Rounded<F> x) {   \
    return Rounded<F>::of(f(to_double(x))); \
  }
OPBOUND_ROUNDED_FUNCTION(exp)
OPBOUND_ROUNDED_FUNCTION(exp2)
OPBOUND_ROUNDED_FUNCTION(expm1)
OPBOUND_ROUNDED_FUNCTION(log)
OPBOUND_ROUNDED_FUNCTION(log1p)
OPBOUND_ROUNDED_FUNCTION(tanh)
OPBOUND_ROUNDED_FUNCTION(erf)
OPBOUND_ROUNDED_FUNCTION(erfc)
OPBOUND_ROUNDED_FUNCTION(sin)
OPBOUND_ROUNDED_FUNCTION(cos)
OPBOUND_ROUNDED_FUNCTION(rsqrt)
#undef OPBOUND_ROUNDED_FUNCTION

template <Format F>
struct Conversion<Rounded<F>> {
  OPBOUND_HD static Rounded<F> from(double x) { return Rounded<F>::of(x); }
  OPBOUND_HD static Rounded<F> from(Real r) {
    return Rounded<F>::of(detail::round_to_odd(r.high, r.low));
  }
};

/// The number type that computes in a format.
template <Format F>
using NumberOf =
    std::conditional_t<F == fp64, double, std::conditional_t<F == fp32, float, Rounded<F>>>;

// ---- the concept

/// What a kernel may do with its numbers, and with that all that stands above for any T. Copies
/// and a default value are for a team's lanes.
template <class T>
concept Number = std::semiregular<T> && requires(T a, T b, T c) {
  { a + b } -> std::same_as<T>;
  { a - b } -> std::same_as<T>;
  { a* b } -> std::same_as<T>;
  { a / b } -> std::same_as<T>;
  { -a } -> std::same_as<T>;
  { fma(a, b, c) } -> std::same_as<T>;
  { sqrt(a) } -> std::same_as<T>;
  { exp(a) } -> std::same_as<T>;
  { exp2(a) } -> std::same_as<T>;
  { expm1(a) } -> std::same_as<T>;
  { log(a) } -> std::same_as<T>;
  { log1p(a) } -> std::same_as<T>;
  { tanh(a) } -> std::same_as<T>;
  { erf(a) } -> std::same_as<T>;
  { erfc(a) } -> std::same_as<T>;
  { sin(a) } -> std::same_as<T>;
  { cos(a) } -> std::same_as<T>;
  { rsqrt(a) } -> std::same_as<T>;
  { abs(a) } -> std::same_as<T>;
  { max(a, b) } -> std::same_as<T>;
  { min(a, b) } -> std::same_as<T>;
  { pivot(a) } -> std::same_as<T>;
  { is_negative(a) } -> std::same_as<bool>;
  { stored_in(Format{}, a) } -> std::same_as<T>;
  { Conversion<T>::from(1.0) } -> std::same_as<T>;
  { Conversion<T>::from(Real{}) } -> std::same_as<T>;
};

/// f(stored), where stored(v) is v as it is read again from the format: whether that rounds at all
/// is asked outside of f's loops.
template <class F>
OPBOUND_HD void with_storing(const Format& format, F f) {
  if (format.kind == Kind::fp64)
    f([](const auto& v) { return v; });
  else
    f([&](const auto& v) { return stored_in(format, v); });
}

static_assert(Number<float> && Number<double> && Number<Rounded<bf16>> && Number<Rounded<fp16>>);

}  // namespace opbound
