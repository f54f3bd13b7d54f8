// Mpfr: a floating-point number of a chosen precision and practically no limits to its exponent.
//
// A kernel that runs over Mpfr at some 300 bits is the same algorithm without rounding: what then
// differs from the definition is the method's own error. Infinities, NaN and signed zeros behave as
// IEEE 754-2019 says; MPFR (Fousse, Hanrot, Lefevre, Pelissier and Zimmermann 2007) rounds every
// operation and function correctly.
#pragma once

#include <mpfr.h>

#include <cassert>
#include <utility>

#include "ops/number.hpp"
#include "reference/constants.hpp"

namespace opbound {

/// Significand bits of the numbers made from now on in this thread; 0 outside every PrecisionScope.
inline constinit thread_local mpfr_prec_t working_precision_bits = 0;

/// Sets the working precision (2 bits at least) and MPFR's widest exponent range for this thread,
/// and restores both. Open one per evaluation; no Mpfr or Enclosure can be made outside.
class PrecisionScope {
 public:
  explicit PrecisionScope(mpfr_prec_t bits)
      : outer_bits_(working_precision_bits),
        outer_exponent_min_(mpfr_get_emin()),
        outer_exponent_max_(mpfr_get_emax()) {
    assert(bits >= 2);
    static thread_local const LocalCaches freed_when_the_thread_ends;
    working_precision_bits = bits;
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
  }
  ~PrecisionScope() {
    working_precision_bits = outer_bits_;
    mpfr_set_emin(outer_exponent_min_);
    mpfr_set_emax(outer_exponent_max_);
  }
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  /// MPFR keeps constants and spare memory for every thread; a thread's end does not free them.
  struct LocalCaches {
    LocalCaches() = default;
    ~LocalCaches() { mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); }
    LocalCaches(const LocalCaches&) = delete;
    LocalCaches& operator=(const LocalCaches&) = delete;
  };

  mpfr_prec_t outer_bits_;
  mpfr_exp_t outer_exponent_min_;
  mpfr_exp_t outer_exponent_max_;
};

/// One MPFR number. A copy keeps the precision and so the value; a number that was moved from may
/// only be destroyed or assigned to.
class Mpfr {
 public:
  /// Zero, at the working precision.
  Mpfr() : Mpfr(uninitialised(working_precision_bits)) { mpfr_set_zero(number_, 1); }

  Mpfr(const Mpfr& other) : Mpfr(uninitialised(mpfr_get_prec(other.number_))) {
    mpfr_set(number_, other.number_, MPFR_RNDN);
  }
  Mpfr(Mpfr&& other) noexcept {
    *number_ = *other.number_;
    other.number_->_mpfr_d = nullptr;
  }
  Mpfr& operator=(const Mpfr& other) {
    if (this == &other) return *this;
    if (number_->_mpfr_d == nullptr) return *this = Mpfr(other);
    if (mpfr_get_prec(number_) != mpfr_get_prec(other.number_))
      mpfr_set_prec(number_, mpfr_get_prec(other.number_));
    mpfr_set(number_, other.number_, MPFR_RNDN);
    return *this;
  }
  Mpfr& operator=(Mpfr&& other) noexcept {
    std::swap(*number_, *other.number_);
    return *this;
  }
  ~Mpfr() {
    if (number_->_mpfr_d != nullptr) mpfr_clear(number_);
  }

  /// A number of `bits` bits that is NaN until it is set.
  static Mpfr uninitialised(mpfr_prec_t bits) { return Mpfr(bits, Uninitialised{}); }

  mpfr_ptr get() { return number_; }
  mpfr_srcptr get() const { return number_; }

  friend Mpfr operator+(const Mpfr& a, const Mpfr& b) { return apply(mpfr_add, a, b); }
  friend Mpfr operator-(const Mpfr& a, const Mpfr& b) { return apply(mpfr_sub, a, b); }
  friend Mpfr operator*(const Mpfr& a, const Mpfr& b) { return apply(mpfr_mul, a, b); }
  friend Mpfr operator/(const Mpfr& a, const Mpfr& b) { return apply(mpfr_div, a, b); }
  friend Mpfr operator-(const Mpfr& a) { return apply(mpfr_neg, a); }

  /// f(operands) rounded to nearest at the working precision; f is one of MPFR's functions.
  template <class F, class... Operands>
  static Mpfr apply(F f, const Operands&... operands) {
    Mpfr result = uninitialised(working_precision_bits);
    f(result.number_, operands.number_..., MPFR_RNDN);
    return result;
  }

 private:
  struct Uninitialised {};
  Mpfr(mpfr_prec_t bits, Uninitialised /*tag*/) {
    assert(bits != 0 && "no PrecisionScope is open in this thread");
    mpfr_init2(number_, bits);
  }

  mpfr_t number_;
};

template <>
struct Conversion<Mpfr> {
  static Mpfr from(double x) {
    Mpfr result;
    mpfr_set_d(result.get(), x, MPFR_RNDN);
    return result;
  }
  /// high + low, which is what a kernel's constant is.
  static Mpfr from(Real r) {
    Mpfr result = from(r.high);
    mpfr_add_d(result.get(), result.get(), r.low, MPFR_RNDN);
    return result;
  }
};

/// x rounded once to double.
inline double to_double(const Mpfr& x) { return mpfr_get_d(x.get(), MPFR_RNDN); }

inline bool is_nan(const Mpfr& x) { return mpfr_nan_p(x.get()) != 0; }

/// Whether x < 0; false for -0 and NaN.
inline bool is_negative(const Mpfr& x) { return !is_nan(x) && mpfr_sgn(x.get()) < 0; }

inline Mpfr fma(const Mpfr& a, const Mpfr& b, const Mpfr& c) {
  return Mpfr::apply(mpfr_fma, a, b, c);
}
inline Mpfr abs(const Mpfr& x) { return Mpfr::apply(mpfr_abs, x); }
inline Mpfr sqrt(const Mpfr& x) { return Mpfr::apply(mpfr_sqrt, x); }
inline Mpfr exp(const Mpfr& x) { return Mpfr::apply(mpfr_exp, x); }
inline Mpfr exp2(const Mpfr& x) { return Mpfr::apply(mpfr_exp2, x); }
inline Mpfr expm1(const Mpfr& x) { return Mpfr::apply(mpfr_expm1, x); }
inline Mpfr log(const Mpfr& x) { return Mpfr::apply(mpfr_log, x); }
inline Mpfr log1p(const Mpfr& x) { return Mpfr::apply(mpfr_log1p, x); }
inline Mpfr tanh(const Mpfr& x) { return Mpfr::apply(mpfr_tanh, x); }
inline Mpfr erf(const Mpfr& x) { return Mpfr::apply(mpfr_erf, x); }
inline Mpfr erfc(const Mpfr& x) { return Mpfr::apply(mpfr_erfc, x); }
inline Mpfr sin(const Mpfr& x) { return Mpfr::apply(mpfr_sin, x); }
inline Mpfr cos(const Mpfr& x) { return Mpfr::apply(mpfr_cos, x); }

/// 1 / sqrt(x). MPFR gives +infinity for -0, IEEE 754-2019 (rSqrt) the zero's sign.
inline Mpfr rsqrt(const Mpfr& x) {
  return mpfr_zero_p(x.get()) != 0 ? Conversion<Mpfr>::from(1.0) / x
                                   : Mpfr::apply(mpfr_rec_sqrt, x);
}

/// The larger one; NaN if either is NaN.
inline Mpfr max(const Mpfr& a, const Mpfr& b) {
  return is_nan(b) || mpfr_less_p(a.get(), b.get()) != 0 ? b : a;
}
/// The smaller one; NaN if either is NaN.
inline Mpfr min(const Mpfr& a, const Mpfr& b) {
  return is_nan(b) || mpfr_less_p(b.get(), a.get()) != 0 ? b : a;
}

inline Mpfr pivot(const Mpfr& x) { return x; }
inline Mpfr stored_in(const Format&, const Mpfr& x) { return x; }

template <>
inline Mpfr pi<Mpfr>() {
  Mpfr result;
  mpfr_const_pi(result.get(), MPFR_RNDN);
  return result;
}

static_assert(Number<Mpfr>);

}  // namespace opbound
