// The bound of the norm that a run's update takes, attacked with gradients that are hard to sum.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "distributed/trace/sentinel.hpp"
#include "distributed/train/trainer.hpp"
#include "tests/planted_observer.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {
namespace {

using train::TrainingSpec;

/// Gradients that are hard to sum: by element, of so many.
struct HardGradient {
  const char* name;
  double (*value)(std::int64_t i, std::int64_t count);
};
const std::array hard_gradients{
    HardGradient{"equal", [](std::int64_t, std::int64_t) { return 1.0; }},
    HardGradient{"just above a power of two",
                 [](std::int64_t, std::int64_t) { return 1 + 0x1p-11 + 0x1p-23; }},
    HardGradient{"falling",
                 [](std::int64_t i, std::int64_t n) {
                   return std::exp(-12.0 * static_cast<double>(i) / static_cast<double>(n));
                 }},
    HardGradient{"one large, the rest half an ulp of it",
                 [](std::int64_t i, std::int64_t) { return i == 0 ? 1.0 : 0x1.000002p-12; }},
    HardGradient{"signs and magnitudes",
                 [](std::int64_t i, std::int64_t) {
                   return std::ldexp(i % 3 == 0 ? -1.3 : 1.7, static_cast<int>(i * 7 % 60) - 30);
                 }},
    HardGradient{"near overflow", [](std::int64_t, std::int64_t) { return 0x1.8p+118; }},
    HardGradient{"subnormal",
                 [](std::int64_t i, std::int64_t) {
                   return std::ldexp(static_cast<double>(1 + i % 5), -149);
                 }},
    HardGradient{"one subnormal",
                 [](std::int64_t i, std::int64_t) { return i == 9 ? 0x1p-149 : 0.0; }},
};

/// The norm that a step's update takes of a gradient, and its exact value.
struct Norms {
  double taken = 0, exact = 0;
  std::int64_t count = 0, chunks = 0;
};

Norms norms_of(const TrainingSpec& spec, const HardGradient& hard) {
  Norms norms;
  PlantedObserver planted;
  planted.at_reduced = [&](std::int64_t) {
    const train::Layout& layout = planted.run->layout;
    const Element e = element_of(spec.policy.gradient);
    std::vector<std::byte> flat(static_cast<std::size_t>(layout.count() * bytes_of(e)));
    long double square = 0;  // 64 bits of significand: its rounding is far below every bound
    for (std::size_t p = 0; p < layout.parameters().size(); ++p)
      for (std::int64_t i = layout.parameter(p).begin; i < layout.parameter(p).end; ++i) {
        store(e, flat.data(), i, round_to(format_of(e), hard.value(i, layout.count())));
        const long double g = load(e, flat.data(), i);
        square += g * g;
        ++norms.count;
      }
    norms.exact = static_cast<double>(std::sqrt(square));
    planted.run->machine.write(planted.run->arrays.gradient, flat.data(), std::ssize(flat));
  };
  planted.at_norms = [&](std::int64_t, std::byte*, std::int64_t count, Element) {
    norms.chunks = count;
  };
  train::TrainOptions how;
  how.observers = {&planted};
  train::Trainer trainer(spec, how);
  trainer.set_initial_weights();
  norms.taken = trainer.step().gradient_norm;
  return norms;
}

// The bound holds for the right kernel on every input, and is no idle one: half of the norm is
// outside of it. The largest ratio of error and bound is in the test's record.
TEST(Norm, NoRightKernelExceedsItsBound) {
  for (const char* policy : {"fp32", "fp32-reproducible", "bf16", "fp64"}) {
    TrainingSpec s = tiny_training(policy);
    double largest = 0;
    for (const HardGradient& hard : hard_gradients) {
      const Norms n = norms_of(s, hard);
      ASSERT_GT(n.exact, 0) << hard.name;
      const double bound = norm_bound(n.exact, 1, n.count, n.chunks, s.policy);
      EXPECT_LE(std::abs(n.taken - n.exact), bound) << policy << ", " << hard.name;
      largest = std::max(largest, std::abs(n.taken - n.exact) / bound);
      // Below the normal numbers a norm has few bits, or one.
      const bool is_normal = n.exact > fp32.smallest_normal();
      EXPECT_TRUE(!is_normal || bound < n.exact / 2) << policy << ", " << hard.name;
    }
    RecordProperty(std::string("largest_ratio_") + policy, std::to_string(largest));
    EXPECT_LE(largest, 1) << policy;
  }
}

TEST(Norm, TheBoundOfALargeModelStillSaysSomething) {
  const train::Policy policy = train::read_policy("fp32");
  EXPECT_LT(norm_bound(1, 1, 124'000'000, 1, policy), 0.01);
  train::Policy plain = policy;
  train::OpRuleChange rule;
  rule.op = "global_norm";
  rule.variant = "plain";
  plain.rules.push_back(rule);
  EXPECT_EQ(norm_bound(1, 1, 1000, 1, plain), HUGE_VAL);
}

}  // namespace
}  // namespace opbound::trace
