// Verdicts where definition and algorithm part at infinities, where a quotient is a tie, and errors
// that are known better than a verdict needs.
#include <gtest/gtest.h>

#include "ops/adamw.hpp"
#include "ops/clip.hpp"
#include "ops/layer_norm.hpp"
#include "ops/rms_norm.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using attack::case_for;
using Values = std::vector<double>;

Tensor tensor_of(const CaseSpec& spec, const PassInfo& pass, std::string_view name,
                 const Values& values) {
  const auto t = std::find_if(pass.tensors.begin(), pass.tensors.end(),
                              [&](const TensorSpec& s) { return s.name == name; });
  Tensor tensor(tensor_element(spec, *t), tensor_shape(spec, *t));
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    tensor.set(i, values[static_cast<std::size_t>(i) % values.size()]);
  return tensor;
}

/// Our own kernel on these inputs, each repeated as often as its tensor needs.
Prepared run_own(const CaseSpec& spec,
                 const std::vector<std::pair<std::string_view, Values>>& inputs) {
  Tensors tensors;
  for (const auto& [name, values] : inputs)
    tensors.emplace(name, tensor_of(spec, spec.op->pass(spec.direction), name, values));
  Prepared p = prepare(spec, std::move(tensors));
  spec.op->run(p.call);
  return p;
}

Contract own_order(int variant) { return {{variant}, Contract::Order::own, {}, {}}; }

OutputCheck check(const CaseSpec& spec, const Prepared& p, const Contract& contract, int output) {
  for (const OutputCheck& c : certify(*spec.op, p.call, bounds_of(*spec.op, p.call, contract)))
    if (c.tensor == output) return c;
  ADD_FAILURE() << "no output " << output;
  return {};
}

Contract any_order(std::vector<int> variants) {
  return {std::move(variants), Contract::Order::any, cuda_function_errors, {}};
}

/// g / 3 is exact where g (1 / 3) is no binary number times one.
TEST(Quotient, ThatIsExactIsDecided) {
  for (const auto precision : {"fp32", "fp64", "bf16:fp32:bf16", "fp32:fp32:bf16"}) {
    CaseSpec spec = case_for("clip", Direction::forward, precision, {7, 1});
    spec.attributes = to_bytes(clip::Attributes{1, 0});
    spec.variant = clip::gradient_first;
    // 3 (256 + 1) / 256 / 3 is a tie of bf16
    const Values g{3, -6, 9, 1.5, 3 * 0x1p-20, 3.01171875, 384};
    const Prepared p = run_own(spec, {{"g", g}, {"norm", {3}}});
    for (const Contract& contract : {own_order(spec.variant), any_order({spec.variant})}) {
      const OutputCheck c = check(spec, p, contract, clip::forward::clipped);
      EXPECT_EQ(c.counts.within, 7U) << precision;
      EXPECT_LE(c.error_ulp_max, 0.5);
    }
  }
}

/// x (r^2 mean(g x)) is infinite and x r mean(g x r) NaN for r = infinity: neither is a mistake, a
/// number is.
TEST(Infinity, OfARegroupedFormulaIsNotHeldAgainstAKernel) {
  CaseSpec spec = case_for("rms_norm", Direction::backward_local, "fp32", {1, 4});
  spec.attributes = to_bytes(rms_norm::Attributes{0});
  spec.variant = rms_norm::from_x;
  Prepared p = run_own(
      spec, {{"x", {1, -1, 2, 1}}, {"gamma", {1}}, {"rstd", {INFINITY}}, {"dy", {1, 2, 1, 1}}});
  const int dx = rms_norm::backward::dx;
  EXPECT_TRUE(std::isinf(p.call.backward[static_cast<std::size_t>(dx)].at(0)));
  for (const Contract& contract : {own_order(rms_norm::from_x), any_order({rms_norm::from_x}),
                                   any_order({rms_norm::division, rms_norm::from_x})})
    EXPECT_EQ(check(spec, p, contract, dx).counts.vacuous, 4U);
  EXPECT_EQ(check(spec, p, any_order({rms_norm::division}), dx).counts.exceeds, 4U);
  for (const double got : {std::nan(""), 1.0}) {
    for (int i = 0; i < 4; ++i) p.call.backward[static_cast<std::size_t>(dx)].set(i, got);
    const OutputCheck c = check(spec, p, any_order({rms_norm::from_x}), dx);
    EXPECT_EQ(std::isnan(got) ? c.counts.within : c.counts.exceeds, 4U) << got;
  }
}

/// eps = 0 and no second moment: 0 / 0 and x / 0, as the formula has them.
TEST(Infinity, OfAdamWWithoutEpsIsWhatTheFormulaSays) {
  for (const int variant : {adamw::scaled_step, adamw::corrected_moments, adamw::all_in_compute}) {
    CaseSpec spec = case_for("adamw", Direction::forward, "fp32", {1, 4});
    adamw::Attributes a;
    a.eps = 0;
    spec.attributes = to_bytes(a);
    spec.variant = variant;
    const Prepared p = run_own(spec, {{"w", {1, 1, 0, INFINITY}},
                                      {"g", {0}},
                                      {"m", {0, 1, -1, -1}},
                                      {"v", {0}},
                                      {"found_inf", {0}}});
    const int w = adamw::forward::next_w;
    const TensorView next = p.call.forward[static_cast<std::size_t>(w)];
    EXPECT_TRUE(std::isnan(next.at(0)));
    EXPECT_EQ(next.at(1), -INFINITY);
    EXPECT_EQ(next.at(2), INFINITY);
    const OutputCheck c = check(spec, p, own_order(variant), w);
    EXPECT_EQ(c.counts.exceeds + c.counts.undecided, 0U) << variant;
    EXPECT_GE(c.counts.within, 3U) << variant;
  }
}

/// w xhat overflows before beta brings it back: a theorem that counts roundings must not say else.
TEST(Infinity, OfAnIntermediateProductIsNotForgottenByATheorem) {
  for (const double beta : {-3e38, 0.0}) {
    CaseSpec spec = case_for("layer_norm", Direction::forward, "fp32", {1, 8});
    const Prepared p =
        run_own(spec, {{"x", {0, 1, 2, 3, 4, 5, 6, 40}}, {"gamma", {2e38}}, {"beta", {beta}}});
    EXPECT_EQ(p.call.forward[layer_norm::forward::y].at(7), INFINITY);
    for (const int variant : {layer_norm::two_pass, layer_norm::welford}) {
      EXPECT_EQ(check(spec, p, any_order({variant}), layer_norm::forward::y).counts.exceeds, 0U);
    }
    EXPECT_EQ(check(spec, p, own_order(0), layer_norm::forward::y).counts.exceeds, 0U);
  }
}

/// The sum is 1. Double-double loses that 1, which decides that 0 is within the bound, and says
/// nothing of its error.
TEST(Error, IsKnownToTheDigitsThatAreReported) {
  const CaseSpec spec = case_for("bias", Direction::backward_local, "fp64", {5, 1});
  const Values terms{0x1p200, 0x1p60, 1, -0x1p200, -0x1p60};
  Prepared p = run_own(spec, {{"dy", terms}});
  const auto place = p.call.backward.size() - 1;
  p.call.backward[place].set(0, 0.5);
  const OutputCheck c = check(spec, p, own_order(0), static_cast<int>(place));
  EXPECT_EQ(c.counts.within, 1U);
  EXPECT_EQ(c.error_ulp_max, 0x1p51);
  EXPECT_EQ(c.worst_exact.high, 1);
}

}  // namespace
}  // namespace opbound
