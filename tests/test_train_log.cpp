// The log of a training run: what is written is read again, whenever the run was killed.
#include "distributed/train/log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "distributed/train/report.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

TrainingSpec some_spec() {
  TrainingSpec s;
  s.model = model_named("nano");
  s.policy = read_policy("fp16-scaled");
  return s;
}

RunRecord some_run(std::int64_t first_step = 0) {
  RunRecord r;
  r.file = "nano.toml";
  r.commit = "abc";
  r.device = "cpu";
  r.ranks = 2;
  r.transport = "mpi";
  r.parameters = 109568;
  r.data = "auto";
  r.data_sha256 = std::string(64, '7');
  r.first_step = first_step;
  r.spec = json_of(some_spec());
  r.providers = {{"own", "0.1.0"}};
  r.environment = {{"compiler", "12.2"}, {"mpfr", "4.2"}};
  return r;
}

StepResult some_step(std::int64_t step, double loss) {
  return {step, loss, 0.1, 65536, 1e-3, false, 12.5, 512};
}

ResultRecord some_result(RunEnd end = RunEnd::finished) {
  return {end, "",
          TrainResult{0xfedcba9876543210, 2, 5.5, 0.1, 4096, 1024, end == RunEnd::interrupted}, 25};
}

bool same(const StepResult& a, const StepResult& b) {
  const auto both = [](double x, double y) { return x == y || (x != x && y != y); };
  return a.step == b.step && both(a.loss, b.loss) && both(a.gradient_norm, b.gradient_norm) &&
         both(a.loss_scale, b.loss_scale) && both(a.lr, b.lr) && a.is_skipped == b.is_skipped &&
         both(a.time_ms, b.time_ms) && a.tokens == b.tokens;
}

class LogTest : public TemporaryFolder {
 protected:
  std::string file() const { return path("log.jsonl"); }
  /// A run of so many steps.
  void write_run(std::int64_t steps, std::int64_t first_step = 0, double shift = 0) const {
    TrainingLog log(file());
    log.write(some_run(first_step));
    for (std::int64_t s = first_step; s < first_step + steps; ++s)
      log.write(some_step(s, 5 - 0.1 * static_cast<double>(s) + shift));
  }
  void append(const std::string& text) const {
    std::ofstream(file(), std::ios::binary | std::ios::app) << text;
  }
  std::string refusal() const {
    try {
      read_training_log(file());
    } catch (const InputError& e) {
      return std::string(e.what()).substr(file().size());
    }
    return "";
  }
};

TEST_F(LogTest, WhatIsWrittenIsRead) {
  std::vector<StepResult> steps{some_step(0, 5.5), some_step(1, 0.1)};
  steps[1].is_skipped = true;
  steps[1].gradient_norm = infinite;
  steps[1].loss = std::numeric_limits<double>::quiet_NaN();
  {
    TrainingLog log(file());
    log.write(some_run());
    for (const StepResult& s : steps) log.write(s);
    log.write(some_result());
    log.close();
  }
  const LoggedRuns read = read_training_log(file());
  EXPECT_FALSE(read.is_torn);
  ASSERT_EQ(read.runs.size(), 1U);
  const LoggedRun& run = read.runs[0];
  EXPECT_EQ(run.parts, std::vector<RunRecord>{some_run()});
  ASSERT_EQ(run.steps.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same(run.steps[i], steps[i])) << i;
  ASSERT_TRUE(run.result && run.result->result);
  EXPECT_TRUE(run.result->is_finished());
  EXPECT_EQ(run.result->result->hash, 0xfedcba9876543210U);
  EXPECT_EQ(run.result->result->last_loss, 0.1);
  EXPECT_EQ(run.result->result->allocated_bytes, 4096);
}

TEST_F(LogTest, LinesAreForOthersToo) {
  write_run(1);
  const std::string text = get("log.jsonl");
  const auto line = nlohmann::json::parse(text.substr(text.find('\n') + 1));
  EXPECT_EQ(line["kind"], "training_step");
  EXPECT_EQ(line["loss"], 5.0);
  EXPECT_EQ(line["loss_hex"], "0x1.4p+2");
  EXPECT_EQ(line["tokens_per_second"], 512 * 1000 / 12.5);
  const auto run = nlohmann::json::parse(text.substr(0, text.find('\n')));
  EXPECT_EQ(run["spec"]["policy"]["loss_scale"]["kind"], "dynamic");
  EXPECT_EQ(run["spec"]["model"]["width"], 64);
}

TEST_F(LogTest, EqualSpecsHaveEqualBytesAndOthersHaveNot) {
  const std::string text = json_of(some_spec()).dump();
  EXPECT_EQ(json_of(some_spec()).dump(), text);
  TrainingSpec other = some_spec();
  other.file = "elsewhere";
  other.checkpoint_every = 3;
  EXPECT_EQ(json_of(other).dump(), text);
  other.policy.rules.back().precision->output = fp16;
  EXPECT_NE(json_of(other).dump(), text);
}

// A kill leaves a file that ends anywhere. Whatever is left is read up to its last whole line, and
// the next run goes on from there.
TEST_F(LogTest, AFileThatEndsAnywhereIsReadAndAppendedTo) {
  write_run(3);
  const std::string whole = get("log.jsonl");
  const auto lines_in = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  for (std::size_t size = whole.find('\n') - 9; size < whole.size(); ++size) {
    put("log.jsonl", whole.substr(0, size));
    const auto lines = lines_in(whole.substr(0, size));
    const LoggedRuns read = read_training_log(file());
    EXPECT_EQ(read.is_torn, whole[size - 1] != '\n') << size;
    EXPECT_EQ(read.runs.size(), lines == 0 ? 0U : 1U) << size;
    std::size_t steps = 0;
    for (const LoggedRun& run : read.runs) steps += run.steps.size();
    EXPECT_EQ(steps, static_cast<std::size_t>(std::max<std::ptrdiff_t>(lines - 1, 0))) << size;
    if (size % 61 != 0) continue;
    write_run(1);
    EXPECT_EQ(lines_in(get("log.jsonl")), lines + 2) << size;
    EXPECT_FALSE(read_training_log(file()).is_torn) << size;
  }
}

TEST_F(LogTest, AResumedRunIsOne) {
  write_run(5);
  write_run(3, 2, 0.5);  // killed at 5, its last checkpoint is after step 1
  LoggedRuns read = read_training_log(file());
  ASSERT_EQ(read.runs.size(), 1U);
  EXPECT_EQ(read.runs[0].parts.size(), 2U);
  ASSERT_EQ(read.runs[0].steps.size(), 5U);
  EXPECT_EQ(read.runs[0].steps[1].loss, 5 - 0.1);
  EXPECT_EQ(read.runs[0].steps[2].loss, 5 - 0.1 * 2 + 0.5);
  {
    TrainingLog log(file());
    log.write(some_result(RunEnd::interrupted));
  }
  EXPECT_EQ(read_training_log(file()).runs[0].result->end, RunEnd::interrupted);
  write_run(1, 5);
  read = read_training_log(file());
  ASSERT_EQ(read.runs.size(), 1U);
  EXPECT_FALSE(read.runs[0].result) << "it goes on";
  EXPECT_EQ(read.runs[0].steps.size(), 6U);
}

TEST_F(LogTest, AnotherRunInTheSameFileIsAnother) {
  write_run(2);
  write_run(2);
  EXPECT_EQ(read_training_log(file()).runs.size(), 2U) << "from step 0 again";
  write_run(2, 7);
  EXPECT_EQ(read_training_log(file()).runs.size(), 3U) << "from where the one before never was";
  TrainingLog log(file());
  RunRecord other = some_run(1);
  other.spec["seed"] = 99;
  log.write(other);
  EXPECT_EQ(read_training_log(file()).runs.size(), 4U) << "with another seed";
  other = some_run(1);
  other.spec["seed"] = 99;
  other.data_sha256 = std::string(64, '8');
  log.write(other);
  EXPECT_EQ(read_training_log(file()).runs.size(), 5U) << "on another text";
}

TEST_F(LogTest, AFailedRunSaysWhy) {
  write_run(1);
  {
    TrainingLog log(file());
    log.write(ResultRecord{RunEnd::failed, "step 1: not finite", {}, 12.5});
  }
  const LoggedRuns read = read_training_log(file());
  ASSERT_TRUE(read.runs[0].result);
  EXPECT_EQ(read.runs[0].result->reason, "step 1: not finite");
  EXPECT_FALSE(read.runs[0].result->result);
}

TEST_F(LogTest, RefusesWhatIsNoLog) {
  const auto with = [&](const std::string& line) {
    put("log.jsonl", "");
    write_run(1);
    append(line + "\n");
    return refusal();
  };
  EXPECT_EQ(with("x"), ":3: no JSON object, expected a line of a training log");
  EXPECT_EQ(with("{\"schema\":2}"), ":3: schema 2, expected 1");
  EXPECT_EQ(with("{\"schema\":1}"), ":3: no 'kind', expected a line of a training log");
  EXPECT_EQ(with("{\"schema\":1,\"kind\":\"bound\"}"),
            ":3: kind 'bound', expected training_run, training_step or training_result");
  const std::string good =
      "{\"schema\":1,\"kind\":\"training_step\",\"step\":1,\"loss\":5,\"loss_hex\":\"0x1.4p+2\","
      "\"gradient_norm\":1,\"loss_scale\":1,\"lr\":1,\"skipped\":false,\"tokens\":1,\"time_ms\":1}";
  EXPECT_EQ(with(good), "");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return with(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(changed("\"step\":1", "\"step\":2"), ":3: step 2, expected step 1");
  EXPECT_EQ(changed("\"loss\":5", "\"loss\":6"),
            ":3: 'loss', expected the number that 'loss_hex' is");
  EXPECT_EQ(changed("\"skipped\":false", "\"skipped\":0"), ":3: 'skipped', expected true or false");
  EXPECT_EQ(changed("\"tokens\":1", "\"tokens\":1e99"), ":3: 'tokens', expected a whole number");
  EXPECT_EQ(changed("\"lr\":1", "\"lr\":\"big\""), ":3: 'lr', expected a number, inf, -inf or nan");
  put("log.jsonl", good + "\n");
  EXPECT_EQ(refusal(), ":1: a line of no run, expected a line of kind training_run before it");
  EXPECT_THROW(read_training_log(path("none.jsonl")), InputError);
}

TEST_F(LogTest, IsNotWrittenIntoOtherRecords) {
  put("log.jsonl", "{\"schema\":1,\"kind\":\"bound\",\"op\":\"gelu\"}\n");
  EXPECT_THROW(TrainingLog{file()}, InputError);
  put("log.jsonl", "my notes\n");
  EXPECT_THROW(TrainingLog{file()}, InputError);
  EXPECT_EQ(get("log.jsonl"), "my notes\n");
  put("log.jsonl", "");
  const TrainingLog first(file());
  EXPECT_THROW(TrainingLog{file()}, InputError) << "two at a time";
}

TEST_F(LogTest, AReportTellsOfARun) {
  write_run(30);
  {
    TrainingLog log(file());
    log.write(some_result());
  }
  const std::string text = training_report(read_training_log(file()).runs[0]);
  EXPECT_TRUE(
      text.starts_with("nano of 109568 parameters, policy fp16-scaled, 2 ranks of cpu, mpi\n"
                       "    step       loss  gradient norm  loss scale          lr\n"
                       "       0     5.0000           0.10       65536       0.001\n"))
      << text;
  EXPECT_NE(text.find("\n      29     2.1000 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nloss 5.0000 to 2.1000, 0 steps skipped, 40960 tokens/s\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("\nfinished after 30 steps\n")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 1 + 11 + 1 + 1 + 1) << text;
  EXPECT_EQ(progress_text(some_step(0, 2.5)),
            "loss 2.500, gradient norm 0.10, scale 65536, 40960 tokens/s");
}

}  // namespace
}  // namespace opbound::train
