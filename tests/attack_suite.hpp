// Kernels of somebody else, for any op: its suite's quick cases run with functions moved as far as
// declared and sums and merges along random trees, judged by the bound for any order.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "reference/certify.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound::attack {

/// Judges what a kernel has put into `p` by the bound of its contract: no element is beyond it.
inline void judge_attack(const CaseSpec& spec, const Prepared& p, const Contract& contract,
                         double& largest) {
  for (const OutputCheck& c : certify(*spec.op, p.call, bounds_of(*spec.op, p.call, contract))) {
    EXPECT_EQ(c.counts.exceeds + c.counts.undecided, 0U)
        << spec.op->name << ", " << spec.name << ", " << name_of(spec.precision) << ", variant "
        << spec.op->variants[static_cast<std::size_t>(spec.variant)].name << ", "
        << name_of(spec.direction) << ", output " << c.tensor << ", element " << c.worst.index
        << ", ratio " << c.ratio << ", got " << c.worst.got << ", exact in [" << c.worst.low << ", "
        << c.worst.high << "], bound " << c.worst.bound << ", exceeding " << c.counts.exceeds;
    if (std::isfinite(c.ratio)) largest = std::max(largest, c.ratio);
  }
}

/// A kernel of somebody else: functions moved, any order.
template <class O>
void attack_prepared(const CaseSpec& spec, const Prepared& p, Random& random, double& largest) {
  nudge.errors = cuda_function_errors;
  nudge.way = static_cast<Nudge::Way>(whole(random, 1, 3));
  ForeignKernel<O, RandomTreeTeam>{{&random}}.run(p.call);
  judge_attack(spec, p, {{spec.variant}, Contract::Order::any, cuda_function_errors, {}}, largest);
}

/// Every step-th quick case of the op's suite.
template <class O>
void attack_suite(std::size_t step) {
  Random random(11);
  double largest = 0;
  const Suite suite =
      read_suite(std::string(OPBOUND_SOURCE_DIR) + "/suites/" + std::string(O::name) + ".toml");
  for (std::size_t i = 0; i < suite.cases.size(); i += step)
    if (suite.cases[i].tier == Tier::quick)
      attack_prepared<O>(suite.cases[i], prepare(suite.cases[i]), random, largest);
  testing::Test::RecordProperty("largest_ratio", std::to_string(largest));
  EXPECT_LE(largest, 1);
}

class SuiteAttack : public testing::Test {
 public:
  explicit SuiteAttack(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

/// Registers Attack.<op>, a sample of the suite, and FullAttack.<op>, all of its quick tier.
template <class O>
bool add_attack() {
  const auto add = [](const char* suite, std::size_t step) {
    testing::RegisterTest(
        suite, std::string(O::name).c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [step]() -> SuiteAttack* { return new SuiteAttack([step] { attack_suite<O>(step); }); });
  };
  add("Attack", 37);
  add("FullAttack", 1);
  return true;
}

}  // namespace opbound::attack
