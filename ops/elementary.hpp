// Elementary functions with stated errors, the same bits on every machine: made of + - * / sqrt,
// fma and integer operations only, each correctly rounded by IEEE 754.
//
// float: the correctly rounded value for every one of the 2^32 inputs (tests/test_elementary_full);
// pow(float, float) within 1 ulp. double: within fp64_error_ulp. A 16-bit format: round_to(format,
// f(double)) is the correctly rounded value for every input (tests/test_elementary).
#pragma once

#include "ops/elementary/arithmetic.hpp"
#include "ops/elementary/erf.hpp"
#include "ops/elementary/exp.hpp"
#include "ops/elementary/log.hpp"
#include "ops/elementary/pow.hpp"
#include "ops/elementary/rsqrt.hpp"
#include "ops/elementary/tanh.hpp"
#include "ops/elementary/trigonometric.hpp"

namespace opbound {

enum class Function : unsigned char {
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
  rsqrt,
  pow
};

/// The largest error k of the double function: |f(x) - exact| <= k ulp(exact), and k smallest
/// subnormals where the result is subnormal. Derived beside each function.
OPBOUND_HD constexpr double fp64_error_ulp(Function f) {
  switch (f) {
    case Function::rsqrt:
      return 0.51;
    case Function::sin:
    case Function::cos:
      return 0.8;
    case Function::exp:
    case Function::exp2:
      return 0.82;
    case Function::tanh:
      return 0.85;
    case Function::log:
    case Function::log1p:
      return 0.9;
    case Function::expm1:
      return 0.95;
    case Function::erf:
    case Function::pow:
      return 1;
    case Function::erfc:
      return 2;
  }
  return 2;
}

}  // namespace opbound
