// The functions of ops/elementary.hpp beside an oracle that shares nothing with them: glibc's
// double function decides where its error cannot matter, MPFR the rest.
#pragma once

#include <mpfr.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>

#include "ops/elementary.hpp"

namespace opbound::oracle {

/// One unary function, in every form that the tests need.
struct Unary {
  const char* name;
  Function function;
  double (*of_double)(double);
  void (*of_floats)(const float* x, float* y, int n);
  double (*estimate)(double);  // within 2^-46 of f(x), relatively
  int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
};

inline void PrintTo(const Unary& f, std::ostream* out) { *out << f.name; }

#define OPBOUND_UNARY(f, estimated, mpfr_function)               \
  Unary {                                                        \
#f, Function::f, [](double x) { return opbound::f(x); },       \
        [](const float* x, float* y, int n) {                      \
          for (int i = 0; i < n; ++i) y[i] = opbound::f(x[i]);     \
        },                                                         \
        [](double x) -> double { return estimated; }, mpfr_function \
  }

inline const std::array<Unary, 11> unary_functions{
    OPBOUND_UNARY(exp, std::exp(x), mpfr_exp),
    OPBOUND_UNARY(exp2, std::exp2(x), mpfr_exp2),
    OPBOUND_UNARY(expm1, std::expm1(x), mpfr_expm1),
    OPBOUND_UNARY(log, std::log(x), mpfr_log),
    OPBOUND_UNARY(log1p, std::log1p(x), mpfr_log1p),
    OPBOUND_UNARY(tanh, std::tanh(x), mpfr_tanh),
    OPBOUND_UNARY(erf, std::erf(x), mpfr_erf),
    OPBOUND_UNARY(erfc, std::erfc(x), mpfr_erfc),
    OPBOUND_UNARY(sin, std::sin(x), mpfr_sin),
    OPBOUND_UNARY(cos, std::cos(x), mpfr_cos),
    OPBOUND_UNARY(rsqrt, 1 / std::sqrt(x), mpfr_rec_sqrt),
};

#undef OPBOUND_UNARY

/// An MPFR number of 128 bits that frees itself.
class Number {
 public:
  Number() { mpfr_init2(value_, 128); }
  ~Number() { mpfr_clear(value_); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  mpfr_ptr get() { return value_; }

 private:
  mpfr_t value_;
};

/// Whether two results are the same: equal bits, or both NaN.
template <class T, class Bits>
bool same_bits(T a, T b) {
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b) || (std::isnan(a) && std::isnan(b));
}
inline bool same(float a, float b) { return same_bits<float, std::uint32_t>(a, b); }
inline bool same(double a, double b) { return same_bits<double, std::uint64_t>(a, b); }

/// f(x) to 128 bits. IEEE 754-2019, 9.2.1: rsqrt(-0) = -inf, where MPFR says +inf.
inline void evaluate(const Unary& f, double x, Number& result) {
  mpfr_set_d(result.get(), x, MPFR_RNDN);
  f.exact(result.get(), result.get(), MPFR_RNDN);
  if (f.function == Function::rsqrt && x == 0) mpfr_set_inf(result.get(), std::signbit(x) ? -1 : 1);
}

/// f(x) correctly rounded. Ziv 1991: if both ends of an interval that contains f(x) round to the
/// same float, so does f(x); else MPFR decides, and `undecided` counts it.
inline float correctly_rounded(const Unary& f, float x, Number& scratch, long& undecided) {
  const double estimate = f.estimate(x);
  const auto low = static_cast<float>(estimate * (1 - 0x1p-46));
  const auto high = static_cast<float>(estimate * (1 + 0x1p-46));
  if (low == high || std::isnan(estimate)) return low;
  ++undecided;
  evaluate(f, x, scratch);
  return mpfr_get_flt(scratch.get(), MPFR_RNDN);
}

}  // namespace opbound::oracle
