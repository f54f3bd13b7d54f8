// The bounds of swiglu, bias, residual, rope and recompute against our kernel and other people's:
// functions as inaccurate as declared, sums in any order.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/bias.hpp"
#include "ops/recompute.hpp"
#include "ops/residual.hpp"
#include "ops/rope.hpp"
#include "ops/swiglu.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using attack::chance;
using attack::pick;
using attack::Random;
using attack::whole;

constexpr std::array formats{fp64, fp32, bf16, fp16};

void choose(Random&, swiglu::Attributes&, Sizes& s, int n) { s = {n}; }
void choose(Random&, bias::Attributes&, Sizes& s, int n) { s = {n, 3}; }
void choose(Random& random, residual::Attributes& a, Sizes& s, int n) {
  constexpr std::array scales{1.0, 0.1, -0.7071067811865476, 3.0};
  a = {pick(random, scales), pick(random, formats)};
  s = {n};
}
void choose(Random& random, rope::Attributes& a, Sizes& s, int n) {
  a.pairing = chance(random, 2) ? rope::Pairing::halves : rope::Pairing::interleaved;
  a.angles = chance(random, 3) ? rope::Angles::tables : rope::Angles::computed;
  a.offset = a.angles == rope::Angles::tables ? 0 : whole(random, 0, 40);
  a.base = chance(random, 2) ? 10000 : 500;
  a.table_format = pick(random, formats);
  const int pairs = whole(random, 0, 6);
  s = {n % 16, 2, 2 * (pairs + whole(random, 0, 1)), pairs, n % 16};
}
void choose(Random& random, recompute::Attributes& a, Sizes& s, int n) {
  a.stored_format = pick(random, formats);
  s = {n, 2};
}

/// Finite values; sizes that make products overflow are for the suites.
Tensors make_inputs(Random& random, const CaseSpec& spec) {
  Tensors inputs;
  const auto fill = [&](const TensorSpec& tensor) {
    const Format f = format_of(tensor_element(spec, tensor));
    Tensor t(f, tensor_shape(spec, tensor));
    for (std::int64_t i = 0; i < t.count(); i += team_width) {
      const auto block = attack::adversarial_block(random, f, team_width);
      for (std::int64_t k = i; k < std::min(i + team_width, t.count()); ++k)
        t.set(k, block[static_cast<std::size_t>(k - i)]);
    }
    inputs.insert_or_assign(std::string(tensor.name), std::move(t));
  };
  for (const TensorSpec& t : spec.op->forward.tensors)
    if (t.role == Role::in) fill(t);
  if (spec.direction == Direction::forward) return inputs;
  for (const TensorSpec& t : spec.op->backward->tensors)
    if (t.role == Role::in && !inputs.contains(t.name)) fill(t);
  return inputs;
}

struct Attack {
  bool foreign;
  double largest = 0;
  std::int64_t judged = 0;
};

/// |got - exact| <= bound; where the store is a further rounding, rule (A):
/// RN(exact - bound) <= got <= RN(exact + bound). The reference's own error widens both.
void judge(Attack& attack, const Exact& exact, const Format& compute, const Format& stored,
           double got, double bound) {
  if (exact.kind != Exact::Class::finite || !std::isfinite(exact.radius) || !std::isfinite(bound))
    return;
  ++attack.judged;
  if (store_rounds(compute, stored)) {
    const double reach =
        (bound + exact.radius) * (1 + 0x1p-50) + std::fabs(exact.high) * 0x1p-52 + 0x1p-1074;
    ASSERT_GE(got, round_to(stored, exact.high - reach)) << std::hexfloat << exact.high;
    ASSERT_LE(got, round_to(stored, exact.high + reach)) << std::hexfloat << exact.high;
    return;
  }
  const double error = std::fabs((got - exact.high) - exact.low) - exact.radius;
  if (bound > 0) attack.largest = std::max(attack.largest, error / bound);
  ASSERT_LE(error, bound) << std::hexfloat << "got " << got << " exact " << exact.high;
}

template <class Op>
void attack_case(const CaseSpec& spec, Random& random, Attack& attack) {
  Prepared p = prepare(spec, make_inputs(random, spec));
  Contract contract;
  contract.variants = {spec.variant};
  if (attack.foreign) {
    contract.order = Contract::Order::any;
    contract.functions = cuda_function_errors;
    attack::nudge.way = static_cast<attack::Nudge::Way>(whole(random, 1, 3));
    attack::ForeignKernel<Op, attack::RandomTreeTeam>{attack::RandomTreeTeam{&random}}.run(p.call);
  } else {
    spec.op->run(p.call);
  }
  const auto views = p.call.judged();
  const BoundArrays bounds = spec.op->bound(p.call, contract, spec.variant);
  ReferenceArrays reference(views.size());
  spec.op->reference_dd(p.call, reference);
  for (std::size_t t = 0; t < views.size(); ++t)
    for (std::size_t i = 0; i < reference[t].exact.size(); ++i) {
      judge(attack, reference[t].exact[i], spec.precision.compute, format_of(views[t].element),
            views[t].at(static_cast<std::int64_t>(i)), bounds[t].radius[i]);
      ASSERT_FALSE(testing::Test::HasFatalFailure())
          << spec.op->name << " " << name_of(spec.direction) << " tensor " << t << " element " << i
          << " variant " << spec.variant << " " << name_of(spec.precision);
    }
}

template <class Op>
void attack_bounds(bool foreign, int cases, std::uint64_t seed) {
  Random random(seed);
  attack::nudge.errors = foreign ? cuda_function_errors : FunctionErrors{};
  for (const auto precision :
       {"fp64", "fp32", "bf16", "fp16", "bf16:fp32:bf16", "fp16:fp32:fp32"}) {
    for (const Direction d : {Direction::forward, Direction::backward_full}) {
      Attack attack{foreign};
      for (int k = 0; k < cases; ++k) {
        CaseSpec spec = attack::case_for(Op::name, d, precision, {});
        typename Op::Attributes a;
        choose(random, a, spec.sizes, whole(random, 1, 200));
        spec.attributes = to_bytes(a);
        spec.variant = whole(random, 0, static_cast<int>(Op::variants.size()) - 1);
        attack_case<Op>(spec, random, attack);
        if (testing::Test::HasFatalFailure()) return;
      }
      testing::Test::RecordProperty(
          std::string("largest_ratio_") + std::string(name_of(d)) + "_" + precision,
          std::to_string(attack.largest));
      EXPECT_GT(attack.judged, cases) << precision;
    }
  }
}

template <class Op>
class Bounds : public testing::Test {};
template <class Op>
class FullBounds : public testing::Test {};
using Attacked = testing::Types<swiglu, bias, residual, rope, recompute>;
TYPED_TEST_SUITE(Bounds, Attacked, );
TYPED_TEST_SUITE(FullBounds, Attacked, );

TYPED_TEST(Bounds, HoldForOurKernel) { attack_bounds<TypeParam>(false, 150, 1); }
TYPED_TEST(Bounds, HoldForAnyOrderAndFunctions) { attack_bounds<TypeParam>(true, 150, 2); }
TYPED_TEST(FullBounds, HoldForOurKernel) { attack_bounds<TypeParam>(false, 1000, 3); }
TYPED_TEST(FullBounds, HoldForAnyOrderAndFunctions) { attack_bounds<TypeParam>(true, 1000, 4); }

}  // namespace
}  // namespace opbound
