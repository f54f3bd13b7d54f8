// Theorems attacked alone: no kernel, ours or another of the same algorithm, may exceed them.
#include <gtest/gtest.h>

#include <cmath>

#include "bounds/softmax_theorem.hpp"
#include "ops/softmax.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using attack::Random;

TEST(Growth, IsAboveThatOfRoundings) {
  for (const double u : {0x1p-53, 0x1p-24, 0x1p-11, 0x1p-8})
    for (const double k : {1., 2., 7., 128., 1000., 4096.})
      EXPECT_GE(growth(k, u), std::expm1(k * std::log1p(u))) << k << " " << u;
  EXPECT_GE(growth(1, 0x1p-24), 0x1p-24);
  EXPECT_LE(growth(1, 0x1p-24), 0x1p-24 * (1 + 0x1p-40));
}

struct Attack {
  bool foreign;
  double largest_ratio = 0;
  std::int64_t judged = 0;
};

double bound_at(const SoftmaxTheorem& bound, int variant, double x) {
  return variant == softmax::division     ? bound.of_quotient(x)
         : variant == softmax::reciprocal ? bound.of_product(x)
                                          : bound.of_log(x);
}

Arithmetic arithmetic_of(const Format& f, bool foreign) {
  Arithmetic a{f.unit_roundoff(), f.eta(), foreign ? cuda_function_errors : FunctionErrors{},
               foreign};
  if (f == fp64 && !foreign)
    for (std::size_t i = 0; i < a.functions.ulp.size(); ++i)
      a.functions.ulp[i] = fp64_error_ulp(static_cast<Function>(i));
  return a;
}

/// One case; outputs are kept in the compute format, so that nothing but the kernel rounds.
void attack_case(const CaseSpec& spec, Random& random, Attack& attack) {
  Prepared p = prepare(spec, attack::adversarial_inputs(spec, random));
  if (attack.foreign) {
    attack::nudge.way = static_cast<attack::Nudge::Way>(attack::whole(random, 1, 3));
    attack::run_foreign(*spec.op, p.call, attack::RandomTreeTeam{&random});
  } else {
    spec.op->run(p.call);
  }
  ReferenceArrays reference(p.call.forward.size());
  spec.op->reference_dd(p.call, reference);
  const std::int64_t n = spec.sizes[1];
  const auto x = p.call.forward[softmax::forward::x], y = p.call.forward[softmax::forward::y];
  for (std::int64_t row = 0; row < spec.sizes[0]; ++row) {
    const SoftmaxTheorem bound(
        n, [&](std::int64_t j) { return x.at(row * n + j); },
        arithmetic_of(spec.precision.compute, attack.foreign));
    if (!bound.holds()) continue;
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
      const Exact& e = reference[softmax::forward::y].exact[static_cast<std::size_t>(i)];
      const double got = y.at(i), b = bound_at(bound, spec.variant, x.at(i));
      if (!std::isfinite(e.radius) || !std::isfinite(got) || !std::isfinite(b)) continue;
      const double error = std::fabs((got - e.high) - e.low) - e.radius;
      ++attack.judged;
      attack.largest_ratio = std::max(attack.largest_ratio, error / b);
      ASSERT_LE(error, b) << std::hexfloat << "x " << x.at(i) << " got " << got << " n " << n;
    }
  }
}

void attack_theorem(bool foreign, std::int64_t rows, std::uint64_t seed) {
  Random random(seed);
  attack::nudge.errors = foreign ? cuda_function_errors : FunctionErrors{};
  for (const auto precision : {"fp32", "fp64", "bf16", "fp16"}) {
    Attack attack{foreign};
    for (std::int64_t k = 0; k < rows; ++k) {
      CaseSpec spec = attack::case_for("softmax", Direction::forward, precision,
                                       {2, attack::whole(random, 1, 300)});
      spec.variant = attack::whole(random, 0, 2);
      spec.attributes = to_bytes(softmax::Attributes{spec.variant == softmax::log_of_sum});
      attack_case(spec, random, attack);
    }
    testing::Test::RecordProperty(std::string("largest_ratio_") + precision,
                                  std::to_string(attack.largest_ratio));
    EXPECT_GT(attack.judged, rows) << precision;
    EXPECT_GT(attack.largest_ratio, 0.1) << "an idle bound, " << precision;
  }
}

TEST(SoftmaxTheorem, HoldsForOurKernel) { attack_theorem(false, 60, 1); }
TEST(SoftmaxTheorem, HoldsForAnyOrderAndFunctions) { attack_theorem(true, 60, 2); }
TEST(FullSoftmaxTheorem, HoldsForOurKernel) { attack_theorem(false, 2000, 3); }
TEST(FullSoftmaxTheorem, HoldsForAnyOrderAndFunctions) { attack_theorem(true, 2000, 4); }

/// A sum that the theorem does not know of must be found: bf16 accumulation in an fp32 kernel.
TEST(SoftmaxTheorem, IsExceededByAWrongSum) {
  constexpr int n = 1024;
  const SoftmaxTheorem bound(
      n, [](std::int64_t) { return 0.0; }, arithmetic_of(fp32, false));
  Rounded<bf16> s;
  for (int j = 0; j < n; ++j) s = s + Rounded<bf16>::of(1);
  EXPECT_GT(std::fabs(1.0 / s.value - 1.0 / n), bound.of_quotient(0));
}

}  // namespace
}  // namespace opbound
