// Elementary functions of Tracked: what an error of the argument becomes, and the function's own
// error.
//
// For a smooth f: |f(a') - f(a)| <= L |a' - a|, L the largest |f'| within radius + spread of our
// argument. exp, exp2, expm1, log, log1p and rsqrt have sharper closed forms. The radius itself is
// computed with this project's own fp64 functions, whose stated error (at most 2 ulp) `up` covers;
// so host and device agree.
#pragma once

#include <array>

#include "bounds/tracked.hpp"

namespace opbound {

/// Largest error of each function in ulp of the working format against the correctly rounded result
/// (NVIDIA's convention), as a provider declares it. 0: correctly rounded. Where the exact result
/// is a number of every format, at f(0), log(1) and infinite arguments, it is what they return; and
/// exp, exp2, erfc err by at most 2k + 1 times their exact value, so that far below eta they are 0.
struct FunctionErrors {
  std::array<double, 12> ulp{};
  OPBOUND_HD constexpr double of(Function f) const { return ulp[static_cast<int>(f)]; }
};

/// CUDA's documented errors of its fp32 functions without fast math (CUDA C++ Programming Guide,
/// table of maximum ulp errors): "not a guarantee", so a table of our own measures them.
inline constexpr FunctionErrors cuda_function_errors{{2, 2, 1, 1, 1, 2, 2, 4, 2, 2, 2, 4}};

/// Correctly rounded functions, and 1 / sqrt(x) by two of them where an algorithm says rsqrt: its
/// error |1 / fl(sqrt x) - 1 / sqrt x| is below 2 u (1 + u), so (2 k + 1) u, k a little above 1/2.
inline constexpr FunctionErrors exact_function_errors = [] {
  FunctionErrors e;
  e.ulp[static_cast<int>(Function::rsqrt)] = 0.5 + 0x1p-8;
  return e;
}();

/// Any kernel of the algorithm whose functions are as accurate as declared. Host only: the
/// declaration in force is a property of the thread, set by Foreign::Scope around one bound.
struct Foreign {
  static constexpr bool foreign = true;
  static inline thread_local FunctionErrors declared{};

  class Scope {
   public:
    explicit Scope(const FunctionErrors& errors) : previous_(declared) { declared = errors; }
    ~Scope() { declared = previous_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FunctionErrors previous_;
  };
};

namespace detail {

/// k ulp from the correctly rounded result: |f - z| <= u |z| + 2 k u (1 + u) |z|, underflow (2 k +
/// 1) eta; (1 + 2 u) turns |z| into our computed |fl(z)|.
template <class T, class K>
OPBOUND_HD LocalError declared_error(Function f) {
  if constexpr (K::foreign) {
    constexpr double u = Facts<T>::u;
    const double k = K::declared.of(f);
    return {(u + 2 * k * u * (1 + u)) * (1 + 2 * u), (2 * k + 1) * Facts<T>::format.eta()};
  } else {
    return Facts<T>::function(f);
  }
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> finish_function(Function f, T value, Propagated p,
                                                       bool exact = false) {
  return finish<T, K>(value, p, declared_error<T, K>(f), Facts<T>::function(f), exact);
}

/// The most that a vanishing function, 0 < f <= cap, is at our argument and at theirs.
struct Caps {
  double ours, theirs;
};

/// A function that vanishes for large arguments: where ours returned 0 it erred by at most its cap,
/// which may be far below eta, and theirs, k ulp wrong at most, by 2k + 1 times that. Without this
/// a product with a large x would have a bound of |x| eta around an exact 0. Below `negligible` no
/// product reaches eta again, and less need not be claimed.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> finish_vanishing(Function f, T value, Propagated p, Caps cap,
                                                        bool exact) {
  constexpr double negligible = Facts<T>::negligible;
  LocalError theirs = declared_error<T, K>(f), ours = Facts<T>::function(f);
  if (to_double(value) == 0) {
    // twice the cap: a reference of a few digits can tell what is below it
    ours.absolute = min(ours.absolute, up(max(2 * cap.ours, negligible)));
    if constexpr (K::foreign) {
      const double grows = 2 * K::declared.of(f) + 1;
      theirs.absolute = min(theirs.absolute, up(grows * max(2 * cap.theirs, negligible)));
      // less than the least number of the format is 0: theirs is ours (a double's cap may
      // underflow)
      const bool is_0 = up((grows + 1) * cap.theirs) < Facts<T>::format.smallest_subnormal();
      if (is_0 && Facts<T>::format.exponent_max < 500) {
        Tracked<T, K> r = finish<T, K>(value, p, theirs, ours, exact);
        r.spread = 0;
        return r;
      }
    }
  }
  return finish<T, K>(value, p, theirs, ours, exact);
}

/// Whether v is this very number, in all its digits.
template <class T>
OPBOUND_HD bool is_exactly(T v, double x) {
  return to_double(v - from<T>(x)) == 0;
}

/// 1 + v as a double, within 2^-52 of itself.
template <class T>
OPBOUND_HD double one_plus(T v) {
  return 1 + to_double(v);
}

/// The exact f(ours) is at most |fl| (1 + 2 e) + eta.
template <class T>
OPBOUND_HD double largest_exact(Function f, T value) {
  const LocalError e = Facts<T>::function(f);
  return abs(to_double(value)) * (1 + 2 * e.relative) + e.absolute;
}

/// At least expm1(r), r >= 0. Below 2^-7 the rest of the series after r^3/6 is below 0.0004 r^3.
OPBOUND_HD inline double expm1_above(double r) {
  return r < 0x1p-7 ? r * (1 + r * (0.5 + r * 0.1671)) : expm1(r);
}

/// At least exp(x), x a sum of two with one rounding.
OPBOUND_HD inline double exp_above(double x) { return exp(x + magnitude(x) * 0x1p-50); }

/// scale a, as large as it may be in any execution.
template <class T, class K>
OPBOUND_HD double largest_exponent(Tracked<T, K> a, double scale) {
  const double at = scale * to_double(a);
  return at + magnitude(at) * 0x1p-49 + (K::foreign ? up(scale * a.spread) : 0);
}

/// exp-like: f(a') <= E exp(s d), |f(a') - f(a)| <= f(a') expm1(s r); s = 1 or ln 2, E >= f(ours).
/// Neither is more than the larger of the two values, f at the upper end, which is less where E is
/// much larger than f: for expm1 far below 0, or after underflow. `end`: `largest_exponent`, or
/// infinity where that would say nothing.
template <class T, class K>
OPBOUND_HD Propagated propagate_exponential(Tracked<T, K> a, double largest, double scale,
                                            double end) {
  const double r = up(scale * a.radius), d = K::foreign ? up(scale * a.spread) : 0;
  Propagated p{times(largest, expm1_above(r)), 0};
  if constexpr (K::foreign) p = {times(times(largest, exp(d)), expm1(r)), times(largest, expm1(d))};
  if (end == infinite) return p;
  const auto capped = [](double x, double top) {
    return min(x, up(max(exp_above(top), Facts<T>::negligible)));
  };
  return {capped(p.radius, end + r), capped(p.spread, end)};
}

/// Beyond the largest number a function is at its limit: |f - limit| <= factor exp(-scale |a|).
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> at_its_limit(Function f, Tracked<T, K> a, T value,
                                                    double scale, double factor) {
  const double left = up(factor * exp(-(scale * a.radius * shrink)));
  return finish_vanishing<T, K>(f, value, {left, left}, {left, left}, false);
}

/// At least exp of the least argument, theirs less by the declared error.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> overflowed_exponential(Function f, Tracked<T, K> a, T value,
                                                              double scale) {
  if (is_exact_infinity(a) || is_certain_nan(a)) return not_finite<T, K>(value, true);
  const double lowest = scale * range_of(a).lowest * shrink;
  if (!(lowest > 0)) return not_finite<T, K>(value, false);
  const double loses = declared_error<T, K>(f).relative;
  return beyond<T, K>(value, false, exp(lowest) * positive_part(1 - loses) * shrink);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> exponential(Function f, Tracked<T, K> a, T value,
                                                   double scale) {
  if (!is_finite(to_double(value))) return overflowed_exponential(f, a, value, scale);
  if (is_exact_infinity(a)) return Tracked<T, K>(value);
  if (is_beyond(a)) return at_its_limit<T, K>(f, a, value, scale, 1);
  // Only next to the underflow threshold eta is not lost in the relative error.
  const LocalError e = Facts<T>::function(f);
  const double at = to_double(a);
  const bool may_underflow = at < 0 && to_double(value) * e.relative < 0x1p20 * e.absolute;
  const double cap = may_underflow ? exp(scale * at * shrink) : infinite;
  const double largest = min(largest_exact(f, value), up(max(cap, Facts<T>::negligible)));
  const double end = may_underflow ? largest_exponent(a, scale) : infinite;
  return finish_vanishing<T, K>(f, value, propagate_exponential(a, largest, scale, end),
                                {cap, K::foreign ? exp_above(end) : 0},
                                at == 0 && is_exactly(value, 1));
}

/// log-like of a positive s (s = a, or 1 + a): |log s' - log s| <= -log1p(-r / s').
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> logarithm(Function f, Tracked<T, K> a, T value, double s,
                                                 bool exact) {
  if (!is_finite(to_double(value)))
    return not_finite<T, K>(value, is_exact_infinity(a) || is_certain_nan(a) ||
                                       (s == 0 && a.radius == 0 && a.spread == 0));
  const double lowest = (s - a.spread) * shrink;
  if (!(a.radius < lowest * shrink) || !(a.spread < s * shrink))
    return not_finite<T, K>(value, is_exact_infinity(a));
  const auto step = [](double r, double reference) {
    return r == 0 ? 0 : -log1p(-(r / (reference * shrink)));
  };
  return finish_function<T, K>(f, value, {step(a.radius, lowest), step(a.spread, s * shrink)},
                               exact);
}

/// f with |f'| <= slope near the argument.
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> smooth(Function f, Tracked<T, K> a, T value, double slope,
                                              bool exact) {
  if (!is_finite(to_double(value))) return not_finite<T, K>(value, is_certain_nan(a));
  if (is_beyond(a)) return at_its_limit<T, K>(f, a, value, 1, 2);  // tanh, erf: 2 exp(-|a|)
  return finish_function<T, K>(f, value, {times(slope, a.radius), times(slope, a.spread)}, exact);
}

/// Smallest |argument| of any execution, exact or rounded.
template <class T, class K>
OPBOUND_HD double nearest_argument(Tracked<T, K> a) {
  return positive_part(a.near() * shrink - a.radius);
}

/// |erf'(t)| = 2/sqrt(pi) exp(-t^2), largest at the smallest |t|.
OPBOUND_HD inline double erf_slope(double t) {
  return up(0x1.20dd750429b6ep+0 * exp(-(t * t) * shrink));
}

/// tanh'(t) = 4 w / (1 + w)^2, w = exp(-2 t), falling in |t|.
OPBOUND_HD inline double tanh_slope(double t) {
  const double w = exp(-2 * t);
  return up(4 * w / ((1 + w) * (1 + w)));
}

}  // namespace detail

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> exp(Tracked<T, K> a) {
  return detail::exponential<T, K>(Function::exp, a, exp(a.value), 1);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> exp2(Tracked<T, K> a) {
  return detail::exponential<T, K>(Function::exp2, a, exp2(a.value), 0x1.62e42fefa39f0p-1);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> expm1(Tracked<T, K> a) {
  const T value = expm1(a.value);
  if (!detail::is_finite(to_double(value)))
    return detail::not_finite<T, K>(value,
                                    detail::is_exact_infinity(a) || detail::is_certain_nan(a));
  if (detail::is_exact_infinity(a)) return Tracked<T, K>(value);
  if (detail::is_beyond(a)) return detail::at_its_limit<T, K>(Function::expm1, a, value, 1, 1);
  // expm1 and exp differ by 1, so errors propagate as exp's do, from exp(a) = 1 + expm1(a)
  const double largest = 1 + detail::largest_exact(Function::expm1, value);
  return detail::finish_function<T, K>(
      Function::expm1, value,
      detail::propagate_exponential(a, largest, 1, detail::largest_exponent(a, 1)),
      to_double(a) == 0);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> log(Tracked<T, K> a) {
  const T value = log(a.value);
  return detail::logarithm<T, K>(Function::log, a, value, to_double(a),
                                 detail::is_exactly(a.value, 1) && to_double(value) == 0);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> log1p(Tracked<T, K> a) {
  return detail::logarithm<T, K>(Function::log1p, a, log1p(a.value),
                                 detail::one_plus(a.value) * detail::shrink, to_double(a) == 0);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> tanh(Tracked<T, K> a) {
  const double slope = detail::tanh_slope(detail::nearest_argument(a));
  return detail::smooth<T, K>(Function::tanh, a, tanh(a.value), slope,
                              to_double(a) == 0 || detail::is_exact_infinity(a));
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> erf(Tracked<T, K> a) {
  const double slope = detail::erf_slope(detail::nearest_argument(a));
  return detail::smooth<T, K>(Function::erf, a, erf(a.value), slope,
                              to_double(a) == 0 || detail::is_exact_infinity(a));
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> erfc(Tracked<T, K> a) {
  const T value = erfc(a.value);
  if (!detail::is_finite(to_double(value)))
    return detail::not_finite<T, K>(value, detail::is_certain_nan(a));
  if (detail::is_beyond(a)) return detail::at_its_limit<T, K>(Function::erfc, a, value, 1, 2);
  const bool is_exact_argument = a.radius == 0 && a.spread == 0;
  const double slope = is_exact_argument ? 0 : detail::erf_slope(detail::nearest_argument(a));
  const double at = to_double(a);
  const auto cap = [&](double t) {  // erfc(t) <= exp(-t^2)
    return t > 0 && to_double(value) == 0 ? exp(-(t * t) * detail::shrink) : detail::infinite;
  };
  return detail::finish_vanishing<T, K>(
      Function::erfc, value, {detail::times(slope, a.radius), detail::times(slope, a.spread)},
      {cap(at), K::foreign ? cap((at - a.spread) * detail::shrink) : 0},
      (at == 0 && detail::is_exactly(value, 1)) || detail::is_exact_infinity(a));
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> sin(Tracked<T, K> a) {
  return detail::smooth<T, K>(Function::sin, a, sin(a.value), 1, to_double(a) == 0);
}

template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> cos(Tracked<T, K> a) {
  const T value = cos(a.value);
  return detail::smooth<T, K>(Function::cos, a, value, 1,
                              to_double(a) == 0 && detail::is_exactly(value, 1));
}

/// |1/sqrt(s') - 1/sqrt(s)| <= (1/sqrt(s')) ((1 - r/s')^(-1/2) - 1)
template <class T, class K>
OPBOUND_APART OPBOUND_HD Tracked<T, K> rsqrt(Tracked<T, K> a) {
  const T value = rsqrt(a.value);
  const double s = to_double(a);
  if (!detail::is_finite(to_double(value)))
    return detail::not_finite<T, K>(
        value, (!K::foreign && detail::is_exact_zero(a)) || detail::is_certain_nan(a));
  if (detail::is_exact_infinity(a)) return Tracked<T, K>(value);
  if (detail::is_beyond(a)) return detail::not_finite<T, K>(value, false);
  const double lowest = (s - a.spread) * detail::shrink;
  if (!(a.radius < lowest * detail::shrink) || !(a.spread < s * detail::shrink))
    return detail::not_finite<T, K>(value, false);
  const auto growth = [](double r, double reference) {
    return r == 0 ? 0 : expm1(-0.5 * log1p(-(r / (reference * detail::shrink))));
  };
  const double largest = detail::largest_exact(Function::rsqrt, value);
  const double by_spread = growth(a.spread, s * detail::shrink);
  return detail::finish_function<T, K>(
      Function::rsqrt, value,
      {detail::times(largest * (1 + by_spread), growth(a.radius, lowest)),
       detail::times(largest, by_spread)});
}

}  // namespace opbound
