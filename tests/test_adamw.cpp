// AdamW beyond its suite: when an update of a weight is lost, what stochastic rounding does about
// it, that a skipped step changes no bit, and the a priori bound that the running one replaces.
#include "ops/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/provider.hpp"
#include "reference/certify.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

/// RN(w + d) = w, decided without adding: |d| below half an ulp, or half an ulp and an even
/// significand; toward zero from a power of two the spacing is half as wide.
bool is_lost(const Format& f, double w, double d) {
  const double size = std::fabs(d), step = ulp(f, w);
  const bool is_power = std::fabs(w) == power_of_two(std::ilogb(w));
  if (is_power && std::fabs(w) > f.smallest_normal() && d * w < 0) return size <= step / 4;
  const bool is_even = std::fmod(std::fabs(w) / step, 2) == 0;
  return size < step / 2 || (size == step / 2 && is_even);
}

/// Every significand of one binade, both signs, and updates around a quarter and half an ulp.
void check_all_significands(const Format& f, int binade) {
  std::int64_t lost = 0, checked = 0;
  const double first = power_of_two(binade), step = ulp(f, first);
  for (double w = first; w < 2 * first; w += step)
    for (const double sign : {1.0, -1.0})
      for (int k = 1; k <= 48; ++k)
        for (const double nudge : {-0x1p-20, 0.0, 0x1p-20})
          for (const double direction : {1.0, -1.0}) {
            const double d = direction * step * (k / 16.0 + nudge);
            ASSERT_EQ(round_to(f, sign * w + d) == sign * w, is_lost(f, sign * w, d))
                << w << " " << d;
            ++checked;
            lost += is_lost(f, sign * w, d) ? 1 : 0;
          }
  EXPECT_GT(lost, checked / 10);
  EXPECT_LT(lost, checked / 5);
}

TEST(LostUpdate, RuleHoldsForEverySignificand) {
  for (const int binade : {-126, -125, -7, 0, 3}) check_all_significands(bf16, binade);
  for (const int binade : {-14, -13, 0, 5}) check_all_significands(fp16, binade);
}

// |d| <= (u/2) |w| is always lost, |d| > u |w| never.
TEST(LostUpdate, BandOfTheRatio) {
  for (double w = 1; w < 2; w += 0x1p-7) {
    EXPECT_TRUE(is_lost(bf16, w, 0x1p-9 * w));
    EXPECT_TRUE(is_lost(bf16, w, -0x1p-9 * w));
    EXPECT_FALSE(is_lost(bf16, w, 0x1p-8 * w * (1 + 0x1p-20)));
    EXPECT_FALSE(is_lost(bf16, w, -0x1p-8 * w * (1 + 0x1p-20)));
  }
}

// ---- runs of the op

struct Choice {
  adamw::Attributes attributes;
  int variant = adamw::scaled_step;
  std::int64_t steps = 1, n = 1;
  Precision precision{};
  std::vector<std::pair<std::string, std::string>> inputs;
};

Prepared run(const Choice& c) {
  CaseSpec spec;
  spec.op = find_op("adamw");
  spec.attributes = to_bytes(c.attributes);
  spec.variant = c.variant;
  spec.declared = {c.variant};
  spec.sizes = {c.steps, c.n};
  spec.precision = c.precision;
  for (const auto& [tensor, input] : c.inputs) spec.inputs.emplace_back(tensor, parse_input(input));
  Prepared prepared = prepare(spec);
  spec.op->run(prepared.call);
  return prepared;
}

/// A constant gradient from a zero state gives an update of lr per step, exactly so over the reals
/// but for eps.
Choice constant_gradient(int variant, const Format& state, double lr, std::int64_t steps,
                         std::int64_t n) {
  Choice c;
  c.attributes.lr = lr;
  c.attributes.weight_decay = 0;
  c.attributes.eps = 0;
  c.attributes.beta1 = c.attributes.beta2 = 0.5;  // moments that bf16 holds but for 2^-9
  c.attributes.state_format = state;
  c.attributes.seed = 5;
  c.variant = variant;
  c.steps = steps;
  c.n = n;
  c.inputs = {{"w", "constant(value=1)"},
              {"g", "constant(value=1)"},
              {"m", "constant(value=0)"},
              {"v", "constant(value=0)"},
              {"found_inf", "mask(p=0)"}};
  return c;
}

// lr = 2^-12 is below half an ulp of 1 in bf16 (2^-9 toward zero): 100 steps to nearest move
// nothing, in fp32 they move 100 lr, and rounded stochastically they move that in the mean.
TEST(Adamw, StochasticRoundingKeepsWhatRoundingToNearestLoses) {
  constexpr std::int64_t steps = 100, n = 4096;
  const auto last = [&](Prepared p) {
    std::vector<double> w;
    const Tensor& all = p.tensors.find("next_w")->second;
    for (std::int64_t i = 0; i < n; ++i) w.push_back(all.at((steps - 1) * n + i));
    return w;
  };
  const auto nearest = last(run(constant_gradient(adamw::scaled_step, bf16, 0x1p-12, steps, n)));
  for (const double w : nearest) ASSERT_EQ(w, 1);
  const auto stochastic = last(run(constant_gradient(adamw::stochastic, bf16, 0x1p-12, steps, n)));
  double mean = 0;
  for (const double w : stochastic) mean += w / n;
  // Every rounding has mean 0 and lies in an interval of one ulp, 2^-8 below 1. Hoeffding 1963,
  // Azuma 1967: the mean of n runs of `steps` steps is off by t or more with probability at most
  // 2 exp(-2 n t^2 / (steps 2^-16)), which is 1e-9 at half an ulp. Both moments are 1 - 2^-t,
  // held to within 2^-9 by bf16 (1 from t = 9 on), so m / sqrt(v), corrected, is within 1.5 * 2^-9
  // (1 + 2^-7) < 2^-8 of 1, and a step within 2^-8 of lr.
  const double t = 0x1p-8 * std::sqrt(steps * std::log(2e9) / (2.0 * n));
  const Prepared wide = run(constant_gradient(adamw::scaled_step, fp32, 0x1p-12, steps, 1));
  const double exact = 1 - steps * 0x1p-12,
               in_fp32 = wide.tensors.find("next_w")->second.at(steps - 1);
  EXPECT_LT(std::fabs(in_fp32 - exact), steps * fp32.unit_roundoff());
  EXPECT_LT(std::fabs(mean - exact), t + steps * 0x1p-12 * 0x1p-8);
}

// Each store goes to one of the two neighbours of what scaled_step would have stored.
TEST(Adamw, AStochasticStoreIsWithinOneUlp) {
  Choice c = constant_gradient(adamw::stochastic, bf16, 0.01, 1, 3000);
  c.inputs[0].second = "normal";
  c.inputs[1].second = "normal";
  Choice wide = c;
  wide.variant = adamw::scaled_step;
  wide.attributes.state_format = fp32;
  c.inputs[0].second = wide.inputs[0].second = "constant(value=0.7109375)";
  const Prepared low = run(c), high = run(wide);
  const Tensor& got = low.tensors.find("next_w")->second;
  const Tensor& exact = high.tensors.find("next_w")->second;
  std::int64_t up = 0;
  for (std::int64_t i = 0; i < c.n; ++i) {
    const double x = exact.at(i), below = truncate_to(bf16, x), next = below + ulp(bf16, x);
    ASSERT_TRUE(got.at(i) == below || got.at(i) == next) << x << " " << got.at(i);
    up += got.at(i) == next ? 1 : 0;
  }
  EXPECT_GT(up, 0);
  EXPECT_LT(up, c.n);
}

// Bit for bit, NaN included: a skipped step may not even touch the state.
TEST(Adamw, ASkippedStepChangesNoBit) {
  Choice c;
  c.steps = 3;
  c.n = 500;
  c.inputs = {{"w", "special"},
              {"g", "special"},
              {"m", "special"},
              {"v", "special"},
              {"found_inf", "mask(p=1)"}};
  for (const int variant : {adamw::scaled_step, adamw::corrected_moments, adamw::stochastic}) {
    c.variant = variant;
    const Prepared p = run(c);
    for (const char* name : {"w", "m", "v"}) {
      const Tensor& before = p.tensors.find(name)->second;
      const Tensor& after = p.tensors.find("next_" + std::string(name))->second;
      for (std::int64_t i = 0; i < c.steps * c.n; ++i)
        ASSERT_EQ(encode(fp32, before.at(i % c.n)), encode(fp32, after.at(i))) << name << i;
    }
  }
}

// A run of k steps is k runs of one step: the state is carried as it is stored.
TEST(Adamw, ARunIsItsSteps) {
  Choice c;
  c.steps = 6;
  c.n = 64;
  c.precision = {bf16, fp32, bf16};
  c.attributes.state_format = bf16;
  c.inputs = {{"w", "normal"},
              {"g", "normal"},
              {"m", "normal"},
              {"v", "uniform(low=0, high=1)"},
              {"found_inf", "mask(p=0.3)"}};
  const Prepared whole = run(c);
  CaseSpec spec;
  spec.op = find_op("adamw");
  spec.sizes = {1, c.n};
  spec.precision = c.precision;
  spec.attributes = to_bytes(c.attributes);
  Prepared one = prepare(spec);
  const auto copy = [&](const char* from, std::int64_t row, const Prepared& source,
                        const char* to) {
    for (std::int64_t i = 0; i < c.n; ++i)
      one.tensors.find(to)->second.set(i, source.tensors.find(from)->second.at(row * c.n + i));
  };
  for (const char* name : {"w", "m", "v"}) copy(name, 0, whole, name);
  adamw::Attributes a = c.attributes;
  for (std::int64_t k = 0; k < c.steps; ++k) {
    copy("g", k, whole, "g");
    const bool skips = whole.tensors.find("found_inf")->second.index_at(k) != 0;
    one.tensors.find("found_inf")->second.set(0, skips ? 1 : 0);
    one.call.attributes = to_bytes(a);
    spec.op->run(one.call);
    for (const char* name : {"w", "m", "v"}) {
      const std::string next = "next_" + std::string(name);
      for (std::int64_t i = 0; i < c.n; ++i)
        ASSERT_EQ(one.tensors.find(next)->second.at(i),
                  whole.tensors.find(next)->second.at(k * c.n + i))
            << name << " step " << k;
      const Prepared stepped = one;
      copy(next.c_str(), 0, stepped, name);
    }
    if (!skips) ++a.step;
  }
}

// ---- the a priori bound of one step in fp32 (derived for this project: bounds of m', v', the
// root, the denominator and the step, one after the other), with exact inputs and constants that
// are rounded once from double.

struct Step {
  double w, m, v;
};
struct Bounds {
  double w, m, v;
};

Bounds a_priori(const adamw::Attributes& a, const Step& s, double g, double t) {
  constexpr double u = 0x1p-24, eta = 0x1p-149;
  const auto grow = [](int k) { return std::expm1(k * std::log1p(u)); };
  const double m = a.beta1 * s.m + (1 - a.beta1) * g;
  const double v = a.beta2 * s.v + (1 - a.beta2) * g * g;
  Bounds b{};
  b.m = grow(3) * (std::fabs(a.beta1 * s.m) + std::fabs((1 - a.beta1) * g)) + 2 * eta;
  b.v = grow(4) * v + 4 * eta;
  const double root = std::sqrt(v), c1 = 1 - std::pow(a.beta1, t);
  const double root_c2 = std::sqrt(1 - std::pow(a.beta2, t));
  const double e_root = std::fmin(root > 0 ? b.v / root : INFINITY, std::sqrt(b.v));
  const double size = root / root_c2 + a.eps;
  const double e_size =
      ((e_root * (1 + u) + u * root) / root_c2 * (1 + 3 * u) + 3 * u * root / root_c2) * (1 + u) +
      u * a.eps * (1 + u) + u * size;
  if (!(e_size < size)) return {INFINITY, b.m, b.v};
  const double rate = a.lr / c1, step = rate * m / size;
  const double e_step = rate * b.m / (size - e_size) * (1 + 4 * u) +
                        std::fabs(step) * (size / (size - e_size) * (1 + 4 * u) - 1);
  const double kept = s.w * (1 - a.lr * a.weight_decay);
  b.w = (std::fabs(kept) * grow(2) + e_step) * (1 + u) + u * std::fabs(kept - step);
  return b;
}

// The running bound takes what was rounded, not what may have been: it is the sharper of the two
// nearly everywhere, so that the op needs no theorem.
TEST(Adamw, TheRunningBoundIsSharperThanTheAPrioriOne) {
  Choice c;
  c.n = 20000;
  c.attributes.step = 3;
  c.inputs = {{"w", "normal(sigma=0.02)"},
              {"g", "normal(sigma=1e-3)"},
              {"m", "normal(sigma=1e-3)"},
              {"v", "uniform(low=0, high=1e-6)"},
              {"found_inf", "mask(p=0)"}};
  const Prepared p = run(c);
  Contract contract;
  const BoundArrays running = bounds_of(*find_op("adamw"), p.call, contract);
  using Place = adamw::forward;
  std::int64_t sharper = 0;
  for (std::int64_t i = 0; i < c.n; ++i) {
    const auto at = [&](const char* name) { return p.tensors.find(name)->second.at(i); };
    const Bounds b = a_priori(c.attributes, {at("w"), at("m"), at("v")}, at("g"), 3);
    const auto k = static_cast<std::size_t>(i);
    sharper += running[Place::next_w].radius[k] <= b.w && running[Place::next_m].radius[k] <= b.m &&
                       running[Place::next_v].radius[k] <= b.v
                   ? 1
                   : 0;
  }
  EXPECT_EQ(sharper, c.n);
}

// ---- somebody else's kernel of the same algorithm

/// scaled_step with fused multiply-adds and with constants from the library's pow.
void run_with_fused_operations(const adamw::Attributes& a, Prepared& p, std::int64_t n) {
  using Place = adamw::forward;
  const auto& views = p.call.forward;
  const auto number = [](double x) { return static_cast<float>(x); };
  const double c1 = 1 - std::pow(a.beta1, a.step), c2 = 1 - std::pow(a.beta2, a.step);
  const float kept = number(1 - a.lr * a.weight_decay), rate = number(a.lr / c1);
  const float root = number(std::sqrt(c2));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = [&](int place) { return number(views[static_cast<std::size_t>(place)].at(i)); };
    const float g = at(Place::g);
    const float m = std::fmaf(number(a.beta1), at(Place::m), number(1 - a.beta1) * g);
    const float v = std::fmaf(number(1 - a.beta2) * g, g, number(a.beta2) * at(Place::v));
    const float size = std::sqrt(v) / root + number(a.eps);
    views[Place::next_m].set(i, m);
    views[Place::next_v].set(i, v);
    views[Place::next_w].set(i, std::fmaf(-rate, m / size, at(Place::w) * kept));
  }
}

TEST(Adamw, AForeignKernelIsWithinTheBoundOfItsContract) {
  Choice c;
  c.n = 20000;
  c.attributes.weight_decay = 0.1;
  c.inputs = {{"w", "normal(sigma=0.02)"},
              {"g", "log_spaced(low=-30, high=10)"},
              {"m", "normal(sigma=1e-3)"},
              {"v", "uniform(low=0, high=1e-6)"},
              {"found_inf", "mask(p=0)"}};
  for (const std::int64_t step : {1, 2, 100, 100000}) {
    c.attributes.step = step;
    Prepared p = run(c);
    run_with_fused_operations(c.attributes, p, c.n);
    Contract contract;
    contract.order = Contract::Order::any;
    const Op& op = *find_op("adamw");
    for (const OutputCheck& check : certify(op, p.call, bounds_of(op, p.call, contract))) {
      EXPECT_EQ(check.counts.exceeds, 0U) << check.tensor << " at step " << step;
      EXPECT_LE(check.ratio, 1);
      EXPECT_GT(check.ratio, 0.2);  // a bound that is never approached says little
    }
  }
}

}  // namespace
}  // namespace opbound
