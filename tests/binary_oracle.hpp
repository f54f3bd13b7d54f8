// The elementary functions by Boost.Multiprecision's cpp_bin_float with 200 bits: an oracle that
// shares no code with MPFR.
#pragma once

#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "reference/enclosure.hpp"

namespace opbound::oracle {

namespace mp = boost::multiprecision;
using Binary = mp::number<mp::cpp_bin_float<200, mp::digit_base_2>, mp::et_off>;

/// A function in each number type, and a source of inputs whose results lie above 2^-800.
struct Unary {
  const char* name;
  Mpfr (*of_mpfr)(const Mpfr&);
  Enclosure (*of_enclosure)(const Enclosure&);
  Binary (*of_binary)(const Binary&);
  double low;
  double high;

  /// Half uniform in [low, high], half of any magnitude down to 2^-40.
  double input(std::mt19937_64& random) const {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    if (random() % 2 == 0) return low + (high - low) * share;
    const double x = std::ldexp(0.5 + share / 2, -static_cast<int>(random() % 41));
    return low < 0 && random() % 2 == 0 ? -x : x;
  }
};

#define OPBOUND_UNARY(f, expression, low, high)                \
  Unary {                                                      \
#f, [](const Mpfr& x) { return opbound::f(x); },             \
        [](const Enclosure& x) { return opbound::f(x); },        \
        [](const Binary& x) -> Binary { return expression; }, low, high \
  }

inline const std::vector<Unary>& unary_functions() {
  static const std::vector<Unary> functions{
      OPBOUND_UNARY(exp, mp::exp(x), -500, 500),
      OPBOUND_UNARY(exp2, mp::exp2(x), -700, 700),
      OPBOUND_UNARY(expm1, mp::expm1(x), -100, 500),
      OPBOUND_UNARY(log, mp::log(x), 0x1p-20, 1e6),
      OPBOUND_UNARY(log1p, mp::log1p(x), -0.875, 1e6),
      OPBOUND_UNARY(tanh, mp::tanh(x), -40, 40),
      OPBOUND_UNARY(erf, boost::math::erf(x), -8, 8),
      OPBOUND_UNARY(erfc, boost::math::erfc(x), -8, 20),
      OPBOUND_UNARY(sin, mp::sin(x), -1000, 1000),
      OPBOUND_UNARY(cos, mp::cos(x), -1000, 1000),
      OPBOUND_UNARY(sqrt, mp::sqrt(x), 0, 1e6),
      OPBOUND_UNARY(rsqrt, 1 / mp::sqrt(x), 0x1p-20, 1e6),
  };
  return functions;
}
#undef OPBOUND_UNARY

/// x itself: four doubles hold its 200 bits.
inline Mpfr exact_value(Binary x) {
  const PrecisionScope scope(264);
  Mpfr sum;
  for (int i = 0; i < 4; ++i) {
    const auto part = x.convert_to<double>();
    sum = sum + from<Mpfr>(part);
    x -= part;
  }
  return sum;
}

/// x rounded once to the working precision.
inline Mpfr rounded(const Binary& x) { return Mpfr::apply(mpfr_set, exact_value(x)); }

}  // namespace opbound::oracle
