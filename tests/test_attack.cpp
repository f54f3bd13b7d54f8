// Every op's bound for any order, attacked by kernels that keep its contract: attack_suite.hpp,
// made for each op from attacks/attack.cpp.in.
#include <gtest/gtest.h>

#include "ops/op.hpp"

namespace opbound {
namespace {

TEST(AttackList, HasEveryOp) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    if (std::string_view(suite.name()) == "Attack") {
      EXPECT_EQ(suite.total_test_count(), std::ssize(all_ops()));
    }
  }
}

}  // namespace
}  // namespace opbound
