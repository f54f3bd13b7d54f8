// How long a step's calls took, by op.
#include <gtest/gtest.h>

#include <sstream>

#include "distributed/train/call_times.hpp"
#include "distributed/train/trainer.hpp"
#include "tests/tiny_training.hpp"

namespace opbound {
namespace {

/// Rows of the table below its titles' rule.
std::vector<std::string> rows_of(const train::CallTimes& times) {
  std::vector<std::string> rows;
  std::istringstream text(times.table(Terminal{}));
  for (std::string line; std::getline(text, line);)
    if (line.find("---") == std::string::npos) rows.push_back(line);
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

TEST(CallTimes, CountsTheCallsOfItsStepAndNoOthers) {
  const train::TrainingSpec spec = tiny_training("fp32");
  train::CallTimes second(1), never(7);
  train::TrainOptions how;
  how.observers = {&second, &never};
  train::train(spec, how);
  EXPECT_EQ(never.table(Terminal{}), "");
  const std::vector<std::string> rows = rows_of(second);
  ASSERT_FALSE(rows.empty());
  EXPECT_TRUE(rows.back().starts_with("all calls")) << rows.back();
  const auto calls = [&](const std::string& op, const std::string& direction) {
    for (const std::string& row : rows) {
      std::istringstream words(row);
      std::string first, way, provider;
      int count = 0;
      words >> first >> way >> provider >> count;
      if (first == op && way == direction && provider == "own") return count;
    }
    return 0;
  };
  const int each = static_cast<int>(spec.micro_batches);
  EXPECT_EQ(calls("attention", "forward"), spec.model.layers * each);
  EXPECT_EQ(calls("attention", "backward"), spec.model.layers * each);
  EXPECT_EQ(calls("layer_norm", "forward"), (2 * spec.model.layers + 1) * each);
  EXPECT_EQ(calls("cross_entropy", "backward"), each);
  EXPECT_EQ(calls("global_norm", "forward"), 1);  // of the update, told too
}

TEST(CallTimes, ChangesNoBit) {
  const train::TrainingSpec spec = tiny_training("bf16");
  train::CallTimes times(1);
  train::TrainOptions how;
  const std::uint64_t without = train::train(spec, how).hash;
  how.observers = {&times};
  EXPECT_EQ(train::train(spec, how).hash, without);
}

}  // namespace
}  // namespace opbound
