// Inputs that try a double function everywhere, and its error there against MPFR.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "ops/real.hpp"
#include "tests/elementary_oracle.hpp"

namespace opbound::oracle {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// |got - exact| in ulp of exact (of a format with these digits and this smallest normal exponent);
/// infinity counts as 2^(exponent_max + 1), which is what overflows to it.
inline double error_ulp(const Format& f, double got, Number& exact) {
  if (std::isnan(got) || mpfr_nan_p(exact.get()) != 0)
    return std::isnan(got) && mpfr_nan_p(exact.get()) != 0 ? 0 : infinity;
  if (mpfr_zero_p(exact.get()) != 0 || mpfr_inf_p(exact.get()) != 0)
    return got == mpfr_get_d(exact.get(), MPFR_RNDN) ? 0 : infinity;
  Number beyond, difference;
  mpfr_set_ui_2exp(beyond.get(), 1, f.exponent_max + 1, MPFR_RNDN);
  if (std::isinf(got)) {
    if (mpfr_cmpabs(exact.get(), beyond.get()) >= 0)
      return (got > 0) == (mpfr_sgn(exact.get()) > 0) ? 0 : infinity;
    mpfr_set(difference.get(), beyond.get(), MPFR_RNDN);
    if (got < 0) mpfr_neg(difference.get(), difference.get(), MPFR_RNDN);
  } else {
    mpfr_set_d(difference.get(), got, MPFR_RNDN);
  }
  const auto exponent = std::max<mpfr_exp_t>(mpfr_get_exp(exact.get()) - 1, f.exponent_min);
  mpfr_sub(difference.get(), difference.get(), exact.get(), MPFR_RNDA);
  mpfr_mul_2si(difference.get(), difference.get(), f.digits - 1 - exponent, MPFR_RNDA);
  return std::fabs(mpfr_get_d(difference.get(), MPFR_RNDA));
}

/// Where a function is neither constant nor linear, and points around which its algorithm changes.
struct Range {
  double low, high;
  std::vector<double> critical;
};

/// The doubles next to multiples of `step`, for which an argument reduction is hardest.
inline void add_multiples(std::vector<double>& points, double step, int first, int last) {
  for (int i = first; i <= last; ++i) points.push_back(i * step);
}

/// The doubles nearest to n pi/2 for n = 2^i, and the one nearest of all to such a multiple
/// (6381956970095103 * 2^797; Muller 2016, chapter 11).
inline std::vector<double> hard_angles() {
  std::vector<double> points{0x1.6ac5b262ca1ffp+849};
  Number half_pi, product;
  mpfr_const_pi(half_pi.get(), MPFR_RNDN);
  mpfr_div_2ui(half_pi.get(), half_pi.get(), 1, MPFR_RNDN);
  for (long n = 1; n < 1L << 40; n += 1 + n / 8) {
    mpfr_mul_si(product.get(), half_pi.get(), n, MPFR_RNDN);
    points.push_back(mpfr_get_d(product.get(), MPFR_RNDN));
  }
  return points;
}

inline Range range_of(Function f) {
  const double half_ln2 = ln2.high / 2;
  std::vector<double> c{0x1p-54, 0x1p-28, 0x1p-27, 0x1p-1022, 0x1p-1074};
  switch (f) {
    case Function::exp:
    case Function::expm1:
      add_multiples(c, half_ln2, -2150, 2050);
      c.insert(c.end(), {-745.1332191019412, 709.782712893384, -708.3964185322641, -40, 700});
      return {-750, 712, c};
    case Function::exp2:
      add_multiples(c, 0.5, -2152, 2050);
      return {-1080, 1026, c};
    case Function::log:
      for (int k = -1022; k < 1024; k += 31) c.push_back(power_of_two(k) * sqrt_half.high);
      c.insert(c.end(), {1, sqrt_half.high, 2 * sqrt_half.high, 1.7976931348623157e308});
      return {0, 4, c};
    case Function::log1p:
      c.insert(c.end(), {-1, sqrt_half.high - 1, 2 * sqrt_half.high - 1, 0x1p53, 0x1p1023});
      return {-1, 4, c};
    case Function::tanh:
      add_multiples(c, half_ln2 / 2, -120, 120);
      return {-20, 20, c};
    case Function::erf:
      c.insert(c.end(), {0.75, 3, 6});
      return {-6.5, 6.5, c};
    case Function::erfc:
      c.insert(c.end(), {0.75, 1.5, 3, 26.543, 27.2, 27.3});
      return {-6.5, 28, c};
    case Function::sin:
    case Function::cos:
      return {-1e4, 1e4, hard_angles()};
    default:
      c.insert(c.end(), {1, 2, 4, 0x1p-900, 0x1p1023});
      return {0, 4, c};
  }
}

inline std::vector<double> inputs(const Range& range, std::size_t count, std::mt19937_64& random) {
  std::vector<double> x;
  std::uniform_real_distribution<double> uniform(range.low, range.high), exponent(-60, 10);
  while (x.size() < count) {
    switch (random() % 4) {
      case 0:
        x.push_back(std::bit_cast<double>(random()));
        break;
      case 1:
        x.push_back((random() % 2 == 0 ? -1 : 1) * std::exp2(exponent(random)));
        break;
      case 2: {  // within 8 ulp of a critical point
        const double point = range.critical[random() % range.critical.size()];
        const auto bits = std::bit_cast<std::uint64_t>(point) + random() % 17 - 8;
        x.push_back((random() % 4 == 0 ? -1 : 1) * std::bit_cast<double>(bits));
        break;
      }
      default:
        x.push_back(uniform(random));
    }
  }
  return x;
}

/// The largest error of f's double function on `count` inputs, and where it is.
struct Worst {
  double error_ulp = 0;
  double input = 0;
};

inline Worst worst_error(const Unary& f, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Number exact;
  Worst worst;
  for (const double x : inputs(range_of(f.function), count, random)) {
    evaluate(f, x, exact);
    const double error = error_ulp(fp64, f.of_double(x), exact);
    if (error > worst.error_ulp) worst = {error, x};
  }
  return worst;
}

}  // namespace opbound::oracle
