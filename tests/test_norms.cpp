// The bounds of layer_norm and rms_norm against other people's kernels: any order of summation and
// merging, functions as inaccurate as declared. And layer_norm's theorem alone.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/layer_norm.hpp"
#include "ops/rms_norm.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using attack::Random;
using attack::whole;

/// Sums and merges in any order.
struct AnyTeam : attack::RandomTreeTeam {
  explicit AnyTeam(Random& r) : attack::RandomTreeTeam{&r} {}
  template <class Kind, class F>
  auto reduce(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    std::vector<T> terms;
    for (std::int64_t i = 0; i < n; ++i) terms.push_back(term(i));
    if (terms.empty()) return Kind::template empty<T>();
    const int way = whole(*random, 0, 2);
    while (terms.size() > 1) {
      const std::size_t last = terms.size() - 1;
      const std::size_t a = way == 0 ? 0 : way == 1 ? last - 1 : (*random)() % last;
      const T merged = attack::chance(*random, 2) ? Kind::combine(terms[a], terms[last])
                                                  : Kind::combine(terms[last], terms[a]);
      terms.pop_back();
      terms[a] = merged;
    }
    return terms[0];
  }
  template <class F>
  bool any(std::int64_t n, F predicate) const {
    return HostTeam<1>{}.any(n, predicate);
  }
};

/// Rows where normalisation breaks: a mean far above sigma, near constant, outliers, tiny, huge.
std::vector<double> make_row(Random& random, const Format& f, std::int64_t n) {
  std::vector<double> x;
  const int family = whole(random, 0, 7);
  const double range = std::min(f.digits, 24) / 3.4, size = 1 + attack::share(random);
  const bool is_moved = family == 1 || family == 2;
  const double offset = is_moved ? std::pow(10, range * attack::share(random)) : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double v = 2 * attack::share(random) - 1;
    if (family == 2) v *= 1e-2;
    if (family == 3) v = size;
    if (family == 4) v *= attack::chance(random, 20) ? 100 : 0.01;
    if (family == 5) v *= f == fp16 ? 1e-4 : 1e-15;
    if (family == 6) v *= f == fp16 ? 8 : 1e12;
    if (family == 7) v = i == 0 ? 1 : f.unit_roundoff() * (attack::chance(random, 8) ? 3 : 1);
    x.push_back(round_to(f, v + offset));
  }
  return x;
}

Tensors make_inputs(Random& random, const CaseSpec& spec) {
  Tensors inputs;
  const Format f = spec.precision.compute;
  const std::int64_t rows = spec.sizes[0], n = spec.sizes[1];
  const auto fill = [&](std::string_view name, const Shape& shape) {
    Tensor& t = inputs.insert_or_assign(std::string(name), Tensor(f, shape)).first->second;
    for (std::int64_t i = 0; i < t.count(); i += n) {
      const auto x = make_row(random, f, n);
      for (std::int64_t j = 0; j < n; ++j) t.set(i + j, x[static_cast<std::size_t>(j)]);
    }
  };
  fill("x", {rows, n});
  fill("gamma", {n});
  if (spec.op->name == "layer_norm") fill("beta", {n});
  if (spec.direction != Direction::forward) fill("dy", {rows, n});
  return inputs;
}

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
  if (op.name == "layer_norm") {
    attack::ForeignKernel<layer_norm, AnyTeam>{AnyTeam(random)}.run(call);
  } else {
    attack::ForeignKernel<rms_norm, AnyTeam>{AnyTeam(random)}.run(call);
  }
}

template <class Op>
CaseSpec make_case(Random& random, std::string_view precision, Direction direction) {
  const int n = attack::chance(random, 8) ? whole(random, 1, 1000) : whole(random, 1, 70);
  CaseSpec spec = attack::case_for(Op::name, direction, precision, {3, n});
  constexpr std::array eps{1e-3, 1e-5, 1e-12};
  constexpr std::array held{fp64, fp32, bf16, fp16};
  typename Op::Attributes a;
  a.eps = attack::pick(random, eps);
  a.eps_format = attack::pick(random, held);
  a.xhat_format = attack::chance(random, 4) ? bf16 : fp64;
  a.weight_offset = attack::chance(random, 2) ? 1 : 0;
  spec.attributes = to_bytes(a);
  spec.variant = whole(random, 0, static_cast<int>(Op::variants.size()) - 1);
  return spec;
}

/// One case; outputs are kept in the compute format, so that nothing but the kernel rounds.
void attack_case(const CaseSpec& spec, Random& random, Attack& attack) {
  Prepared p = prepare(spec, make_inputs(random, spec));
  run_kernel(attack, *spec.op, p.call, random);
  const auto views = p.call.judged();
  const BoundArrays bounds =
      spec.op->bound(p.call, contract_of(attack, spec.variant), spec.variant);
  ReferenceArrays reference(views.size());
  spec.op->reference_dd(p.call, reference);
  for (std::size_t t = 0; t < views.size(); ++t) {
    for (std::size_t i = 0; i < reference[t].exact.size(); ++i) {
      attack.judge(reference[t].exact[i], views[t].at(static_cast<std::int64_t>(i)),
                   bounds[t].radius[i]);
      if (testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << "tensor " << t << " element " << i << " n " << spec.sizes[1] << " variant "
                      << spec.variant;
        return;
      }
    }
  }
}

template <class Op>
void attack_bounds(bool foreign, int cases, std::uint64_t seed) {
  Random random(seed);
  attack::nudge.errors = foreign ? cuda_function_errors : FunctionErrors{};
  for (const auto precision : {"fp32", "fp64", "bf16", "fp16"}) {
    for (const Direction d : {Direction::forward, Direction::backward_full}) {
      Attack attack{foreign};
      for (int k = 0; k < cases; ++k) {
        attack_case(make_case<Op>(random, precision, d), random, attack);
        if (testing::Test::HasFatalFailure()) return;
      }
      testing::Test::RecordProperty(std::string("largest_ratio_") + precision,
                                    std::to_string(attack.largest));
      EXPECT_GT(attack.judged, cases) << precision;
      EXPECT_GT(attack.largest, 0.1) << "an idle bound, " << precision;
    }
  }
}

TEST(LayerNorm, BoundsHoldForOurKernel) { attack_bounds<layer_norm>(false, 60, 1); }
TEST(LayerNorm, BoundsHoldForAnyOrderAndFunctions) { attack_bounds<layer_norm>(true, 60, 2); }
TEST(FullLayerNorm, BoundsHoldForOurKernel) { attack_bounds<layer_norm>(false, 2000, 3); }
TEST(FullLayerNorm, BoundsHoldForAnyOrderAndFunctions) { attack_bounds<layer_norm>(true, 2000, 4); }
TEST(RmsNorm, BoundsHoldForOurKernel) { attack_bounds<rms_norm>(false, 60, 11); }
TEST(RmsNorm, BoundsHoldForAnyOrderAndFunctions) { attack_bounds<rms_norm>(true, 60, 12); }
TEST(FullRmsNorm, BoundsHoldForOurKernel) { attack_bounds<rms_norm>(false, 2000, 13); }
TEST(FullRmsNorm, BoundsHoldForAnyOrderAndFunctions) { attack_bounds<rms_norm>(true, 2000, 14); }

/// The theorem, not hidden behind a running bound that is sharper: of rstd, and of y where gamma
/// is 1 and beta 0.
void attack_theorem(bool foreign, int cases, std::uint64_t seed) {
  using F = layer_norm::forward;
  Random random(seed);
  attack::nudge.errors = foreign ? cuda_function_errors : FunctionErrors{};
  for (const auto precision : {"fp32", "bf16", "fp16"}) {
    Attack attack{foreign};
    for (int k = 0; k < cases; ++k) {
      CaseSpec spec = make_case<layer_norm>(random, precision, Direction::forward);
      layer_norm::Attributes a = from_bytes<layer_norm::Attributes>(spec.attributes);
      a.affine = layer_norm::Affine::none;
      a.xhat_format = fp64;
      spec.attributes = to_bytes(a);
      spec.variant = whole(random, layer_norm::two_pass, layer_norm::reciprocal);
      Tensors inputs = make_inputs(random, spec);
      inputs.erase("gamma");
      inputs.erase("beta");
      Prepared p = prepare(spec, std::move(inputs));
      run_kernel(attack, *spec.op, p.call, random);
      Contract contract = contract_of(attack, spec.variant);
      contract.theorems = false;
      const BoundArrays running = spec.op->bound(p.call, contract, spec.variant);
      ReferenceArrays reference(p.call.forward.size());
      spec.op->reference_dd(p.call, reference);
      const Format& f = spec.precision.compute;
      Arithmetic arithmetic{
          f.unit_roundoff(), f.eta(), contract.functions,
          foreign ? [](std::int64_t m, double u) { return static_cast<double>(m) * u; }
                  : [](std::int64_t m, double u) {
                      return growth(static_cast<double>(sum_height(m, team_width)), u);
                    }};
      const std::int64_t n = spec.sizes[1];
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
