// Kernels of somebody else, for ops whose reductions are of several kinds: functions moved, sums
// and merges along random trees, judged by the bound for any order.
#include <gtest/gtest.h>

#include "ops/cross_entropy.hpp"
#include "ops/logsumexp.hpp"
#include "ops/softmax.hpp"
#include "suites/input.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using attack::Random;
using Inputs = std::vector<std::pair<std::string, std::string>>;

/// What one case of an op is attacked with.
struct Attacked {
  std::string_view precision;
  Sizes sizes;
  Inputs inputs;
};

template <class O>
void attack_case(const Attacked& a, const typename O::Attributes& attributes, int variant,
                 Direction direction, Random& random, double& largest) {
  CaseSpec spec = attack::case_for(O::name, direction, a.precision, a.sizes);
  spec.attributes = to_bytes(attributes);
  spec.variant = variant;
  spec.seed = random();
  for (const auto& [tensor, input] : a.inputs) spec.inputs.emplace_back(tensor, parse_input(input));
  Prepared p = prepare(spec);
  attack::nudge.errors = cuda_function_errors;
  attack::nudge.way = static_cast<attack::Nudge::Way>(attack::whole(random, 1, 3));
  attack::ForeignKernel<O, attack::RandomTreeTeam>{{&random}}.run(p.call);
  const Contract any{{variant}, Contract::Order::any, cuda_function_errors, {}};
  for (const OutputCheck& c : certify(*spec.op, p.call, bounds_of(*spec.op, p.call, any))) {
    EXPECT_EQ(c.counts.exceeds + c.counts.undecided, 0)
        << O::name << " " << a.precision << " "
        << O::variants[static_cast<std::size_t>(variant)].name << " " << name_of(direction)
        << " output " << c.tensor << " seed " << spec.seed << " ratio " << c.ratio;
    if (std::isfinite(c.ratio)) largest = std::max(largest, c.ratio);
  }
}

template <class O>
double attack_op(const std::vector<Inputs>& inputs, const std::vector<typename O::Attributes>& all,
                 bool has_one) {
  Random random(7);
  double largest = 0;
  for (const auto precision : {"fp64", "fp32", "bf16:fp32:bf16", "fp16:fp32:fp16", "bf16", "fp16"})
    for (const Inputs& in : inputs)
      for (const auto& attributes : all)
        for (int v = 0; v < static_cast<int>(O::variants.size()); ++v) {
          if (!detail::allows<O>(attributes, v)) continue;
          const Attacked a{precision, {20, attack::whole(random, 1, 60), has_one ? 1 : 0}, in};
          for (const auto d :
               {Direction::forward, Direction::backward_local, Direction::backward_full})
            attack_case<O>(a, attributes, v, d, random, largest);
        }
  testing::Test::RecordProperty("largest_ratio", std::to_string(largest));
  return largest;
}

TEST(Foreign, CrossEntropy) {
  using Reduction = cross_entropy::Reduction;
  std::vector<cross_entropy::Attributes> all;
  for (const bool recompute : {false, true})
    for (const double smoothing : {0.0, 0.1})
      for (const Reduction r : {Reduction::none, Reduction::mean, Reduction::sum})
        all.push_back({r, -100, smoothing, recompute});
  const double ratio = attack_op<cross_entropy>(
      {{{"logits", "normal(sigma=3)"}, {"targets", "index(ignored=0.2)"}},
       {{"logits", "one_hot(value=30)"}, {"targets", "zipf"}},
       {{"logits", "special"}, {"targets", "index(ignored=0.2)"}},
       {{"logits", "one_hot(value=2, background=-inf)"}, {"targets", "index"}},
       {{"logits", "increasing(step=0.5)"}, {"targets", "index"}}},
      all, true);
  EXPECT_GT(ratio, 0.3);
  EXPECT_LE(ratio, 1);
}

TEST(Foreign, LogSumExp) {
  const double ratio = attack_op<logsumexp>({{{"x", "normal(sigma=3)"}},
                                             {{"x", "one_hot(value=0, background=-9)"}},
                                             {{"x", "special"}},
                                             {{"x", "normal(mean=1000)"}},
                                             {{"x", "increasing(step=0.5)"}}},
                                            {{}}, false);
  EXPECT_GT(ratio, 0.3);
  EXPECT_LE(ratio, 1);
}

TEST(Foreign, OnlineSoftmax) {
  const double ratio = attack_op<softmax>({{{"x", "normal(sigma=3)"}},
                                           {{"x", "one_hot(value=1, background=-inf)"}},
                                           {{"x", "increasing(step=0.01)"}},
                                           {{"x", "special"}}},
                                          {{false}, {true}}, false);
  EXPECT_GT(ratio, 0.3);
  EXPECT_LE(ratio, 1);
}

}  // namespace
}  // namespace opbound
