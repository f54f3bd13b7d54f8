// Steps of traces, compared member by member.
#pragma once

#include <gtest/gtest.h>

#include "distributed/trace/trace.hpp"

namespace opbound::trace {

inline void expect_same(const TraceStep& a, const TraceStep& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_EQ(a.sample_hash, b.sample_hash);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.full, b.full);
  EXPECT_EQ(a.prompts, b.prompts);
}

}  // namespace opbound::trace
