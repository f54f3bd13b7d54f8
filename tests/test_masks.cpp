// Masks of large numbers: whatever kernel it is, a weight that should be 0 and is not is found.
#include <gtest/gtest.h>

#include "reference/certify.hpp"
#include "suites/input.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

/// Bounds for any kernel of any of the op's algorithms, the first output changed by `change`.
template <class F>
ElementCounts judged(std::string_view op, const Sizes& sizes, std::string_view masked,
                     std::string_view mask, int variant, F change) {
  CaseSpec spec = attack::case_for(op, Direction::forward, "fp32", sizes);
  spec.variant = variant;
  spec.inputs.emplace_back(masked, parse_input(mask));
  Prepared p = prepare(spec);
  spec.op->run(p.call);
  const Contract any{{variant}, Contract::Order::any, cuda_function_errors, {}};
  const BoundArrays bounds = bounds_of(*spec.op, p.call, any);
  for (const BoundArray& b : bounds)
    for (const double radius : b.radius) EXPECT_TRUE(std::isfinite(radius)) << op << " " << mask;
  for (std::size_t t = 0; t < spec.op->forward.tensors.size(); ++t)
    if (spec.op->forward.tensors[t].is_judged()) {
      change(p.call.forward[t]);
      break;
    }
  return certify(*spec.op, p.call, bounds).front().counts;
}

constexpr std::array masks{"masked(p=0.9)", "masked(p=0.9, value=-3e9)"};

TEST(Masks, ASoftmaxWeightThatIsNot0IsFound) {
  for (const char* mask : masks)
    for (const int variant :
         {int{softmax::division}, int{softmax::reciprocal}, int{softmax::online}}) {
      const auto unchanged = [](TensorView&) {};
      const ElementCounts right = judged("softmax", {8, 65}, "x", mask, variant, unchanged);
      EXPECT_EQ(right.within, right.checked) << mask << variant;
      const auto poke = [](TensorView& y) {
        std::int64_t i = 0;
        while (y.at(i) != 0) ++i;
        y.set(i, 1e-40);  // subnormal, and far above what an exp that underflows may leave
      };
      EXPECT_EQ(judged("softmax", {8, 65}, "x", mask, variant, poke).exceeds, 1U) << mask;
    }
}

TEST(Masks, ALogsumexpThatCountsAMaskIsFound) {
  for (const char* mask : masks)
    for (const int variant : {0, 1}) {
      const auto unchanged = [](TensorView&) {};
      EXPECT_EQ(judged("logsumexp", {8, 65}, "x", mask, variant, unchanged).within, 8U);
      const auto poke = [](TensorView& y) { y.set(3, y.at(3) + 0.01); };
      EXPECT_EQ(judged("logsumexp", {8, 65}, "x", mask, variant, poke).exceeds, 1U) << mask;
    }
}

}  // namespace
}  // namespace opbound
