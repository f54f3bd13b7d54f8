// The constants of ops/real.hpp against MPFR.
#include "ops/real.hpp"

#include <gtest/gtest.h>

#include "reference/mpfr.hpp"

namespace opbound {
namespace {

constexpr mpfr_prec_t oracle_bits = 300;

/// high is the nearest double, and high + low within 2^-106 of the exact value.
void expect_pair(const char* name, Real got, const Mpfr& exact) {
  EXPECT_EQ(got.high, to_double(exact)) << name;
  const Mpfr error = abs(from<Mpfr>(got.high) + from<Mpfr>(got.low) - exact);
  EXPECT_FALSE(is_negative(abs(exact) * from<Mpfr>(0x1p-106) - error)) << name;
}

TEST(Real, ConstantsAreWithinTheirBound) {
  const PrecisionScope scope(oracle_bits);
  const Mpfr one = from<Mpfr>(1.0);
  const Mpfr two = from<Mpfr>(2.0);
  const Mpfr circle = pi<Mpfr>();
  expect_pair("ln2", ln2, log(two));
  expect_pair("log2_e", log2_e, one / log(two));
  expect_pair("sqrt_half", sqrt_half, sqrt(one / two));
  expect_pair("sqrt_two_over_pi", sqrt_two_over_pi, sqrt(two / circle));
  expect_pair("one_over_sqrt_two_pi", one_over_sqrt_two_pi, rsqrt(two * circle));
  expect_pair("two_over_sqrt_pi", two_over_sqrt_pi, two / sqrt(circle));
  expect_pair("gelu_cubic", gelu_cubic, from<Mpfr>(44715.0) / from<Mpfr>(1e6));
}

}  // namespace
}  // namespace opbound
