// Bounds on inputs, attributes and sizes drawn at random, which no suite lists: our kernel by its
// own contract, and somebody else's by that of any order.
#include "ops/bias.hpp"
#include "ops/layer_norm.hpp"
#include "ops/recompute.hpp"
#include "ops/residual.hpp"
#include "ops/rms_norm.hpp"
#include "ops/rope.hpp"
#include "ops/swiglu.hpp"
#include "tests/attack_norms.hpp"
#include "tests/attack_suite.hpp"

namespace opbound::attack {
namespace {

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
void choose(Random& random, layer_norm::Attributes& a, Sizes& s, int n) {
  choose_norm(random, a);
  s = {3, n};
}
void choose(Random& random, rms_norm::Attributes& a, Sizes& s, int n) {
  choose_norm(random, a);
  s = {3, n};
}

/// A row of the ops that normalise rows; else values of one family.
std::vector<double> values(Random& random, const Op& op, const Format& f, std::int64_t n) {
  const bool is_norm = op.name == "layer_norm" || op.name == "rms_norm";
  return is_norm ? norm_row(random, f, n) : adversarial_block(random, f, n);
}

Tensors make_inputs(Random& random, const CaseSpec& spec) {
  Tensors inputs;
  const auto fill = [&](const PassInfo& pass) {
    for (const TensorSpec& tensor : pass.tensors) {
      if (tensor.role != Role::in || inputs.contains(tensor.name)) continue;
      const Format f = format_of(tensor_element(spec, tensor));
      Tensor t(f, tensor_shape(spec, tensor));
      const std::int64_t row = t.shape().empty() ? 1 : t.shape().back();
      for (std::int64_t i = 0; i < t.count(); i += row) {
        const std::vector<double> block = values(random, *spec.op, f, row);
        for (std::int64_t k = 0; k < row; ++k) t.set(i + k, block[static_cast<std::size_t>(k)]);
      }
      inputs.emplace(std::string(tensor.name), std::move(t));
    }
  };
  fill(spec.op->forward);
  if (spec.direction != Direction::forward) fill(*spec.op->backward);
  return inputs;
}

template <class O>
void attack_bounds(bool foreign, int cases, std::uint64_t seed) {
  Random random(seed);
  double largest = 0;
  for (const auto precision : {"fp64", "fp32", "bf16", "fp16", "bf16:fp32:bf16", "fp16:fp32:fp32"})
    for (const Direction d : {Direction::forward, Direction::backward_full})
      for (int k = 0; k < cases; ++k) {
        CaseSpec spec = case_for(O::name, d, precision, {});
        typename O::Attributes a;
        choose(random, a, spec.sizes, whole(random, 1, 70));
        spec.attributes = to_bytes(a);
        spec.variant = whole(random, 0, static_cast<int>(O::variants.size()) - 1);
        spec.declared = {spec.variant};
        const Prepared p = prepare(spec, make_inputs(random, spec));
        if (foreign) {
          attack_prepared<O>(spec, p, random, largest);
          continue;
        }
        spec.op->run(p.call);
        judge_attack(spec, p, {{spec.variant}, Contract::Order::own, {}, {}}, largest);
      }
  testing::Test::RecordProperty("largest_ratio", std::to_string(largest));
  EXPECT_GT(largest, 0) << "nothing came near";
}

template <class O>
class Inputs : public testing::Test {};
template <class O>
class FullInputs : public testing::Test {};
using Attacked = testing::Types<swiglu, bias, residual, rope, recompute, layer_norm, rms_norm>;
TYPED_TEST_SUITE(Inputs, Attacked, );
TYPED_TEST_SUITE(FullInputs, Attacked, );

TYPED_TEST(Inputs, OurKernel) { attack_bounds<TypeParam>(false, 40, 1); }
TYPED_TEST(Inputs, AnyOrderAndFunctions) { attack_bounds<TypeParam>(true, 40, 2); }
TYPED_TEST(FullInputs, OurKernel) { attack_bounds<TypeParam>(false, 500, 3); }
TYPED_TEST(FullInputs, AnyOrderAndFunctions) { attack_bounds<TypeParam>(true, 500, 4); }

}  // namespace
}  // namespace opbound::attack
