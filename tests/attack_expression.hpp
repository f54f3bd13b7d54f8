// Random expressions over several number types at once: the kernel's own number, another
// execution's, the bound and the exact value. The operands are chosen for what breaks bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "bounds/any_order.hpp"
#include "bounds/tracked_double_double.hpp"
#include "ops/team.hpp"
#include "tests/attack_perturbed.hpp"

namespace opbound::attack {

enum class Operation {
  add,
  subtract,
  multiply,
  divide,
  fma,
  negate,
  abs,
  max,
  min,
  sum,
  sqrt,
  rsqrt,
  exp,
  exp2,
  expm1,
  log,
  log1p,
  tanh,
  erf,
  erfc,
  sin,
  cos,
  count
};

inline const char* name_of(Operation o) {
  constexpr const char* names[] = {"add", "subtract", "multiply", "divide", "fma",   "negate",
                                   "abs", "max",      "min",      "sum",    "sqrt",  "rsqrt",
                                   "exp", "exp2",     "expm1",    "log",    "log1p", "tanh",
                                   "erf", "erfc",     "sin",      "cos"};
  return names[static_cast<int>(o)];
}

template <class N>
N apply(Operation o, const N& a, const N& b, const N& c) {
  switch (o) {
    case Operation::add:
      return a + b;
    case Operation::subtract:
      return a - b;
    case Operation::multiply:
      return a * b;
    case Operation::divide:
      return a / b;
    case Operation::fma:
      return fma(a, b, c);
    case Operation::negate:
      return -a;
    case Operation::abs:
      return abs(a);
    case Operation::max:
      return max(a, b);
    case Operation::min:
      return min(a, b);
    case Operation::sqrt:
      return sqrt(a);
    case Operation::rsqrt:
      return rsqrt(a);
    case Operation::exp:
      return exp(a);
    case Operation::exp2:
      return exp2(a);
    case Operation::expm1:
      return expm1(a);
    case Operation::log:
      return log(a);
    case Operation::log1p:
      return log1p(a);
    case Operation::tanh:
      return tanh(a);
    case Operation::erf:
      return erf(a);
    case Operation::erfc:
      return erfc(a);
    case Operation::sin:
      return sin(a);
    case Operation::cos:
      return cos(a);
    default:
      return a;
  }
}

/// Where a function's argument is interesting; everywhere for the operations.
struct Range {
  double low, high;
};
inline Range range_of(Operation o) {
  switch (o) {
    case Operation::sqrt:
    case Operation::rsqrt:
    case Operation::log:
      return {0, HUGE_VAL};
    case Operation::exp:
    case Operation::expm1:
      return {-120, 92};
    case Operation::exp2:
      return {-160, 130};
    case Operation::log1p:
      return {-1, HUGE_VAL};
    case Operation::tanh:
      return {-12, 12};
    case Operation::erf:
    case Operation::erfc:
      return {-6, 14};
    case Operation::sin:
    case Operation::cos:
      return {-1e5, 1e5};
    default:
      return {-HUGE_VAL, HUGE_VAL};
  }
}

template <class T>
Mpfr exact_value(T x) {
  return from<Mpfr>(to_double(x));
}
inline Mpfr exact_value(DoubleDouble x) { return from<Mpfr>(x.high) + from<Mpfr>(x.low); }

template <class T>
bool is_same(T a, T b) {
  return to_double(a) == to_double(b) ||
         (to_double(a) != to_double(a) && to_double(b) != to_double(b));
}
inline bool is_same(DoubleDouble a, DoubleDouble b) {
  return a == b || (!is_finite(a) && !is_finite(b));
}

/// Format of a number type's inputs: what the generator of operands goes by.
template <class T>
struct Inputs {
  static constexpr Format format = Facts<T>::format;
  static constexpr int exponent_low = format.exponent_min - format.digits + 1;
  static constexpr int exponent_high = format.exponent_max;
};
/// Within 2^+-200, so that sums stay exact in the evaluation's precision.
template <>
struct Inputs<DoubleDouble> {
  static constexpr Format format = fp64;
  static constexpr int exponent_low = -200;
  static constexpr int exponent_high = 200;
};

/// What an expression's place holds: the bound with our value, another execution (ours again where
/// K = Own) and the exact value.
template <class T, class K>
struct Place {
  Tracked<T, K> bounded;
  std::conditional_t<K::foreign, Perturbed<T>, T> other;
  Mpfr exact;
};

/// An expression that grows one operation at a time.
template <class T, class K>
class Expression {
 public:
  explicit Expression(Random& random) : random_(random) {}

  const Place<T, K>& place(std::size_t i) const { return places_[i]; }
  std::size_t size() const { return places_.size(); }

  void input(double x) {
    places_.push_back({from<Tracked<T, K>>(x), from<Other>(x), from<Mpfr>(x)});
    text_ += " " + std::to_string(places_.size() - 1) + "=" + hex(x);
  }

  /// Appends the operation's result; operands are places, or new inputs that suit the operation.
  Operation step() {
    const auto o = static_cast<Operation>(random_() % static_cast<int>(Operation::count));
    if (o == Operation::sum) {
      sum();
      return o;
    }
    const std::size_t a = operand(o), b = operand(Operation::add, a),
                      c = operand(Operation::add, b);
    // an algorithm takes no root of a negative number, over the reals or in any execution
    if (o == Operation::sqrt && (is_negative(places_[a].exact) || to_double(places_[a].other) < 0))
      return step();
    const bool is_angle = o == Operation::sin || o == Operation::cos;
    if (is_angle && mpfr_cmp_d(abs(places_[a].exact).get(), 0x1p1000) > 0) return step();
    places_.push_back({apply(o, places_[a].bounded, places_[b].bounded, places_[c].bounded),
                       apply(o, places_[a].other, places_[b].other, places_[c].other),
                       apply(o, places_[a].exact, places_[b].exact, places_[c].exact)});
    text_ += " " + std::to_string(places_.size() - 1) + "=" + name_of(o) + "(" + std::to_string(a) +
             "," + std::to_string(b) + "," + std::to_string(c) + ")";
    return o;
  }

  const std::string& text() const { return text_; }

  static std::string hex(double x) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%a", x);
    return buffer;
  }

  /// An input of T's range: moderate, at the edges, a power of two, a few digits, or next to
  /// (minus) a value that is already there.
  double fresh() {
    using I = Inputs<T>;
    const Format& f = I::format;
    const double sign = chance(random_, 2) ? 1 : -1;
    const double significand = 1 + share(random_);
    const int any = whole(random_, I::exponent_low, I::exponent_high);
    switch (whole(random_, 0, 9)) {
      case 0:
        return sign * std::ldexp(significand, any);
      case 1:
        return sign * std::ldexp(1.0, any);
      case 2:  // subnormal or barely normal
        return sign * std::ldexp(significand, I::exponent_low + whole(random_, 0, f.digits + 1));
      case 3:  // near overflow
        return sign * std::ldexp(significand, I::exponent_high - whole(random_, 0, 3));
      case 4:
        return whole(random_, -4, 4);
      case 5:  // next to 1
        return sign * (1 + whole(random_, -3, 3) * f.unit_roundoff());
      case 6:
      case 7:
        if (!places_.empty()) {  // nearly cancels, or nearly equal
          const double v = to_double(pick(random_, places_).bounded);
          if (!std::isfinite(v)) return sign;
          const double step = std::max(ulp(f, v), std::ldexp(1.0, I::exponent_low));
          return sign * (v + whole(random_, -2, 2) * step * (chance(random_, 3) ? 0.5 : 1));
        }
        [[fallthrough]];
      default:
        return sign * std::ldexp(significand, whole(random_, -4, 6));
    }
  }

 private:
  using Other = decltype(Place<T, K>::other);

  std::size_t operand(Operation o, std::size_t otherwise = 0) {
    const Range range = range_of(o);
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::size_t i = random_() % places_.size();
      const double v = to_double(places_[i].bounded);
      const bool suits = (range.low <= v && v <= range.high && std::isfinite(v)) ||
                         detail::is_beyond(places_[i].bounded);
      if (suits || chance(random_, 60)) return i;
    }
    if (chance(random_, 6) && otherwise < places_.size()) return otherwise;
    double x = fresh();
    if (std::isfinite(range.low))
      x = std::isfinite(range.high) ? range.low + (range.high - range.low) * share(random_)
                                    : std::fabs(x) + range.low;
    input(chance(random_, 4) ? x : round_to(Inputs<T>::format, x));
    return places_.size() - 1;
  }

  void sum() {
    const int n = whole(random_, 1, 6);
    std::vector<std::size_t> terms;
    for (int i = 0; i < n; ++i) terms.push_back(operand(Operation::add));
    const auto bounded = [&](std::int64_t i) { return places_[terms[Index(i)]].bounded; };
    const auto other = [&](std::int64_t i) { return places_[terms[Index(i)]].other; };
    const auto exact = [&](std::int64_t i) { return places_[terms[Index(i)]].exact; };
    const Mpfr total = [&] {
      const PrecisionScope scope(2300);  // exact in any order
      return HostTeam<1>{}.sum(n, exact);
    }();
    if constexpr (K::foreign) {
      places_.push_back(
          {AnyOrderTeam{}.sum(n, bounded), RandomTreeTeam{&random_}.sum(n, other), total});
    } else {
      places_.push_back({HostTeam<4>{}.sum(n, bounded), HostTeam<4>{}.sum(n, other), total});
    }
    text_ += " " + std::to_string(places_.size() - 1) + "=sum(";
    for (const std::size_t t : terms) text_ += std::to_string(t) + ",";
    text_ += ")";
  }

  using Index = std::size_t;
  Random& random_;
  std::vector<Place<T, K>> places_;
  std::string text_;
};

/// |a - b| against a radius, exactly: -1 where it is larger, else the share of the radius in use (0
/// of 0 is 0).
inline double use_of(const Mpfr& a, const Mpfr& b, double radius) {
  const Mpfr error = abs(a - b);
  if (mpfr_cmp_d(error.get(), radius) > 0) return -1;
  return radius > 0 ? to_double(error / from<Mpfr>(radius)) : 0;
}

/// What the law of a bound says of one place; empty if it holds. `use` becomes the share of the
/// radius that was used.
template <class T, class K>
std::string broken_law(const Place<T, K>& p, double& use) {
  use = 0;
  const double radius = p.bounded.radius, spread = p.bounded.spread;
  const double v = to_double(p.bounded);
  if (!(radius >= 0) || !(spread >= 0)) return "a radius is not a number";
  if constexpr (!K::foreign) {
    if (!is_same(p.bounded.value, p.other)) return "the bound's value is not the kernel's";
  }
  if (std::isinf(radius)) return "";
  if (std::isnan(v)) {
    const bool same = radius == 0 && is_nan(p.exact) && std::isnan(to_double(p.other));
    return same ? "" : "NaN is claimed where not every execution gives it";
  }
  if (is_nan(p.exact)) return "the exact value is not a number";
  const double other = to_double(p.other);
  if (detail::is_beyond(p.bounded)) {
    const Mpfr exact = v > 0 ? p.exact : -p.exact;
    const bool is_large =
        std::copysign(1.0, v) * other >= radius && mpfr_cmp_d(exact.get(), radius) >= 0;
    return is_large ? "" : "not all are as large as is claimed";
  }
  if (std::isinf(v)) {
    const bool same = mpfr_inf_p(p.exact.get()) != 0 && to_double(p.exact) == v && other == v;
    return same ? "" : "an infinity is claimed that is none";
  }
  if (!std::isfinite(other)) return "the other execution is not finite";
  // The exact value is rounded in every operation: a radius below that says nothing of it.
  const int told = 60 - static_cast<int>(mpfr_get_prec(p.exact.get()));
  if (radius == 0 || radius >= std::ldexp(std::fabs(v), told)) {
    use = use_of(exact_value(p.other), p.exact, radius);
    if (use < 0) return "radius is exceeded";
  }
  if (std::isfinite(spread) && K::foreign && use_of(from<Mpfr>(other), from<Mpfr>(v), spread) < 0)
    return "spread is exceeded";
  return "";
}

}  // namespace opbound::attack
