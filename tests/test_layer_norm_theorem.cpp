// layer_norm's theorem alone, attacked by our kernel and by others.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/layer_norm.hpp"
#include "tests/attack_kernels.hpp"
#include "tests/attack_norms.hpp"

namespace opbound {
namespace {

using attack::Random;
using attack::whole;

struct Attack {
  bool foreign;
  double largest = 0;
  std::int64_t judged = 0;

  void judge(const Exact& exact, double got, double bound) {
    if (exact.kind != Exact::Class::finite || !std::isfinite(exact.radius) || !std::isfinite(bound))
      return;
    const double error = std::fabs((got - exact.high) - exact.low) - exact.radius;
    ++judged;
    if (bound > 0) largest = std::max(largest, error / bound);
    ASSERT_LE(error, bound) << std::hexfloat << "got " << got << " exact " << exact.high;
  }
};

Contract contract_of(const Attack& attack, int variant) {
  Contract c;
  c.variants = {variant};
  c.order = attack.foreign ? Contract::Order::any : Contract::Order::own;
  c.functions = attack.foreign ? cuda_function_errors : FunctionErrors{};
  return c;
}

void run_kernel(const Attack& attack, const Op& op, const Call& call, Random& random) {
  if (!attack.foreign) return op.run(call);
  attack::nudge.way = static_cast<attack::Nudge::Way>(whole(random, 1, 3));
  attack::ForeignKernel<layer_norm, attack::RandomTreeTeam>{{&random}}.run(call);
}

/// The theorem, not hidden behind a running bound that is sharper: of rstd, and of y where gamma
/// is 1 and beta 0.
void attack_theorem(bool foreign, int cases, std::uint64_t seed) {
  using F = layer_norm::forward;
  Random random(seed);
  attack::nudge.errors = foreign ? cuda_function_errors : FunctionErrors{};
  for (const auto precision : {"fp32", "bf16", "fp16"}) {
    Attack attack{foreign};
    for (int k = 0; k < cases; ++k) {
      const int n = attack::chance(random, 8) ? whole(random, 1, 1000) : whole(random, 1, 70);
      CaseSpec spec = attack::case_for("layer_norm", Direction::forward, precision, {3, n});
      layer_norm::Attributes a;
      attack::choose_norm(random, a);
      a.affine = layer_norm::Affine::none;
      a.xhat_format = fp64;
      spec.attributes = to_bytes(a);
      spec.variant = whole(random, layer_norm::two_pass, layer_norm::reciprocal);
      Tensors inputs;
      Tensor& x = inputs["x"] = Tensor(spec.precision.compute, {3, n});
      for (std::int64_t i = 0; i < x.count(); i += n) {
        const std::vector<double> row = attack::norm_row(random, spec.precision.compute, n);
        for (std::int64_t j = 0; j < n; ++j) x.set(i + j, row[static_cast<std::size_t>(j)]);
      }
      Prepared p = prepare(spec, std::move(inputs));
      run_kernel(attack, *spec.op, p.call, random);
      Contract contract = contract_of(attack, spec.variant);
      contract.theorems = false;
      const BoundArrays running = spec.op->bound(p.call, contract, spec.variant);
      ReferenceArrays reference(p.call.forward.size());
      spec.op->reference_dd(p.call, reference);
      const Format& f = spec.precision.compute;
      const Arithmetic arithmetic{f.unit_roundoff(), f.eta(), contract.functions, foreign};
      for (std::int64_t row = 0; row < spec.sizes[0]; ++row) {
        const auto r = static_cast<std::size_t>(row);
        const LayerNormTheorem bound(
            n, [&](std::int64_t j) { return p.call.forward[F::x].at(row * n + j); },
            {running[F::mean].radius[r], a.eps, a.eps_format,
             spec.variant == layer_norm::reciprocal},
            arithmetic);
        if (!bound.holds()) continue;
        attack.judge(reference[F::rstd].exact[r], p.call.forward[F::rstd].at(row), bound.of_rstd());
        for (std::int64_t i = row * n; i < (row + 1) * n; ++i)
          attack.judge(reference[F::y].exact[static_cast<std::size_t>(i)],
                       p.call.forward[F::y].at(i),
                       bound.normalised(p.call.forward[F::x].at(i)).error);
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << precision << " n " << n;
      }
    }
    EXPECT_GT(attack.judged, cases) << precision;
    // Not a bound: what this project asks of a theorem's sharpness.
    EXPECT_GT(attack.largest, 0.1) << "an idle bound, " << precision;
    testing::Test::RecordProperty(std::string("largest_ratio_") + precision,
                                  std::to_string(attack.largest));
  }
}

TEST(LayerNormTheorem, HoldsForOurKernel) { attack_theorem(false, 100, 5); }
TEST(LayerNormTheorem, HoldsForAnyOrderAndFunctions) { attack_theorem(true, 100, 6); }
TEST(FullLayerNormTheorem, HoldsForOurKernel) { attack_theorem(false, 5000, 7); }
TEST(FullLayerNormTheorem, HoldsForAnyOrderAndFunctions) { attack_theorem(true, 5000, 8); }

}  // namespace
}  // namespace opbound
