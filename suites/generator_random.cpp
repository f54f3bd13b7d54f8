// Generators whose elements are independent random values.
#include <array>

#include "ops/number.hpp"
#include "suites/generator.hpp"

namespace opbound {

namespace {

using namespace detail;
using Parameters = std::span<const double>;

// ---- normal, uniform, log_spaced

void check_normal(Parameters p, const Format&) {
  require_between("mean", p[0], -fp64.largest(), fp64.largest());
  require_between("sigma", p[1], 0, fp64.largest());
}
double normal(const Place& p) {
  return p.parameters[0] + p.parameters[1] * standard_normal(p.words());
}

void check_masked(Parameters p, const Format&) {
  require_between("p", p[0], 0, 1);
  require_between("value", p[1], -fp64.largest(), fp64.largest());
}
double masked(const Place& p) {
  const PhiloxCounter other = p.words_of(~p.index);  // no element's own
  const bool is_masked = unit_interval(join(other[0], other[1])) < p.parameters[0];
  if (p.column() == 0 || !is_masked) return standard_normal(p.words());
  return max(p.parameters[1], -p.format.largest());
}

void check_uniform(Parameters p, const Format&) {
  require_between("low", p[0], -fp64.largest(), fp64.largest());
  require_between("high", p[1], p[0], fp64.largest());
}
/// A convex combination does not overflow; rounding may lead out of the interval by an ulp.
double uniform(const Place& p) {
  const double low = p.parameters[0], high = p.parameters[1];
  const PhiloxCounter w = p.words();
  const double t = unit_interval(join(w[0], w[1]));
  return min(max(low * (1 - t) + high * t, low), high);
}

void check_log_spaced(Parameters p, const Format& f) {
  require_whole("low", p[0], f.exponent_min - f.digits + 1, f.exponent_max);
  require_whole("high", p[1], static_cast<int>(p[0]), f.exponent_max);
}
double log_spaced(const Place& p) {
  const int low = static_cast<int>(p.parameters[0]), high = static_cast<int>(p.parameters[1]);
  const PhiloxCounter w = p.words();
  const int e = low + static_cast<int>(w[3] % static_cast<std::uint32_t>(high - low + 1));
  const double significand = 1 + unit_interval(join(w[0], w[1]));
  return with_random_sign(min(significand * power_of_two(e), p.format.largest()), w[2]);
}

// ---- the ends of the format's range

void check_nothing(Parameters, const Format&) {}

/// Every length of significand is equally likely, so that the smallest ones occur.
double subnormal(const Place& p) {
  const PhiloxCounter w = p.words();
  const int length = 1 + static_cast<int>(w[3] % static_cast<std::uint32_t>(p.format.digits - 1));
  const std::uint64_t k = (std::uint64_t{1} << 63 | join(w[0], w[1]) >> 1) >> (64 - length);
  return with_random_sign(static_cast<double>(k) * p.format.smallest_subnormal(), w[2]);
}

void check_near_overflow(Parameters p, const Format& f) {
  require_whole("binades", p[0], 1, f.exponent_max - f.exponent_min + 1);
}
double near_overflow(const Place& p) {
  const PhiloxCounter w = p.words();
  const Format& f = p.format;
  const int e =
      f.exponent_max - static_cast<int>(w[3] % static_cast<std::uint32_t>(p.parameters[0]));
  const auto significand = static_cast<double>(random_significand(f, join(w[0], w[1])));
  return with_random_sign(min(significand * power_of_two(e - f.digits + 1), f.largest()), w[2]);
}

// ---- where GELU is ill-conditioned (bounds/README.md 1.1)

/// x0 (1 +- r 2^-k): the distance to the derivative's zero x0 runs through all scales down to the
/// format's ulp.
double gelu_zero(const Place& p) {
  constexpr double x0 = -0.751791524693564457;
  const PhiloxCounter w = p.words();
  const int k = 1 + static_cast<int>(w[3] % static_cast<std::uint32_t>(p.format.digits));
  const double r = 1 + unit_interval(join(w[0], w[1]));
  return x0 * (1 + with_random_sign(r * power_of_two(-k), w[2]));
}

constexpr std::array table{
    Generator{{"normal", "mean=0 sigma=1", "normal distribution (Box and Muller 1958)"},
              check_normal,
              normal},
    Generator{
        {"masked", "p=0.5 value=-1e300",
         "normal; but for a row's first, with probability p a mask: value, or the format's lowest "
         "number where that is larger"},
        check_masked,
        masked},
    Generator{{"uniform", "low=-1 high=1", "uniform distribution on [low, high]"},
              check_uniform,
              uniform},
    Generator{{"log_spaced", "low=-8 high=8",
               "random sign and significand, exponent uniform in low ... high (powers of two)"},
              check_log_spaced,
              log_spaced},
    Generator{{"subnormal", "", "random sign, significands of every length below the normal range"},
              check_nothing,
              subnormal},
    Generator{{"near_overflow", "binades=1",
               "random sign and significand in the highest binades, up to the largest value"},
              check_near_overflow,
              near_overflow},
    Generator{{"gelu_zero", "",
               "-0.7518 (1 +- r 2^-k) around the zero of GELU's derivative, r in [1, 2), all k"},
              check_nothing,
              gelu_zero},
    Generator{{"gelu_tail", "low=-14.5 high=-3", "uniform where GELU runs into underflow"},
              check_uniform,
              uniform}};

}  // namespace

std::span<const Generator> detail::random_generators() { return table; }

}  // namespace opbound
