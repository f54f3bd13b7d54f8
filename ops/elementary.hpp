// Stand-in while the real functions are written: same names, libm inside.
#pragma once
#include <cmath>

#include "ops/odd.hpp"
#include "ops/portable.hpp"
namespace opbound {
#define OPBOUND_STAND_IN(f) \
  OPBOUND_HD inline double f(double x) { return std::f(x); } \
  OPBOUND_HD inline float f(float x) { return static_cast<float>(std::f(static_cast<double>(x))); }
OPBOUND_STAND_IN(exp) OPBOUND_STAND_IN(exp2) OPBOUND_STAND_IN(expm1) OPBOUND_STAND_IN(log)
OPBOUND_STAND_IN(log1p) OPBOUND_STAND_IN(tanh) OPBOUND_STAND_IN(erf) OPBOUND_STAND_IN(erfc)
OPBOUND_STAND_IN(sin) OPBOUND_STAND_IN(cos)
OPBOUND_HD inline double rsqrt(double x) { return 1 / std::sqrt(x); }
OPBOUND_HD inline float rsqrt(float x) { return static_cast<float>(1 / std::sqrt(double(x))); }
OPBOUND_HD inline double fma(double a, double b, double c) { return std::fma(a, b, c); }
OPBOUND_HD inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
enum class Function : unsigned char { exp, exp2, expm1, log, log1p, tanh, erf, erfc, sin, cos, rsqrt, pow };
OPBOUND_HD constexpr double fp64_error_ulp(Function) { return 1; }
}
