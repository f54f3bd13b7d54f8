// kill -9 at any moment: no record is lost or torn, and what goes on comes to the same bits.
#include <cstdio>
#include <set>

#include "distributed/train/log.hpp"
#include "reports/run_store.hpp"
#include "tests/killed_program.hpp"
#include "tests/tiny_run.hpp"

namespace opbound {
namespace {

/// A run that ends before it is killed does not count; where the machine is busy many do.
constexpr std::uint32_t most_runs = 10;

class Kill : public KilledProgram {
 protected:
  void run_is_killed(std::uint32_t times);
  void history_is_killed(std::uint32_t times);
  void train_is_killed(std::uint32_t times);

  /// The records of a file without their times, the only thing in which two runs differ.
  std::vector<std::string> records(const std::string& name) const {
    std::vector<std::string> lines = lines_of(get(name));
    for (std::string& line : lines) {
      if (line.starts_with("torn: ")) continue;
      Record record = from_json(line, name, 1);
      record.time_ms.reset();
      line = to_json(record);
    }
    return lines;
  }
  std::string put_suite() const {
    std::string seeds = "1";
    for (int seed = 2; seed <= 40; ++seed) seeds += ", " + std::to_string(seed);
    return put("gelu.toml", "op = \"gelu\"\nseed = [" + seeds +
                                "]\n[[case]]\nprecision = \"fp32\"\nshape = [2000]\n");
  }
};

class FullKill : public Kill {};

void Kill::run_is_killed(std::uint32_t times) {
  put_suite();
  const std::int64_t longest = timed({"run", "gelu.toml", "--quiet", "--out", "whole.jsonl"});
  const std::vector<std::string> whole = records("whole.jsonl");
  ASSERT_EQ(whole.size(), 40U);
  std::vector<std::string> before;
  std::uint32_t runs = 0, kills = 0, between = 0;
  for (; kills < times && runs < most_runs * times; ++runs) {
    const std::uint32_t i = runs;
    if (before.size() > 10 * whole.size()) {  // long enough
      std::filesystem::remove(path("r.jsonl"));
      before.clear();
    }
    const bool was_killed = killed({"run", "gelu.toml", "--quiet", "--out", "r.jsonl"}, longest, i);
    const std::vector<std::string> now = records("r.jsonl");
    ASSERT_EQ(wrong_of(now, before, whole), "") << "kill " << i;
    const std::size_t added = now.size() - before.size();
    ASSERT_TRUE(was_killed || added == whole.size()) << "no kill " << i;
    kills += was_killed ? 1 : 0;
    between += added > 0 && added < whole.size() ? 1 : 0;
    before = now;
  }
  timed({"run", "gelu.toml", "--quiet", "--out", "r.jsonl"});
  EXPECT_EQ(records("r.jsonl").size(), before.size() + whole.size());
  EXPECT_EQ(wrong_of(records("r.jsonl"), before, whole), "");
  EXPECT_EQ(kills, times);
  std::printf("run: %u runs, %u killed, %u of them between two records\n", runs, kills, between);
}

void Kill::history_is_killed(std::uint32_t times) {
  put_suite();
  timed({"run", "gelu.toml", "--quiet", "--out", "r.jsonl"});
  std::string source;
  for (int i = 0; i < 50; ++i) source += get("r.jsonl");  // 2,000 records: several blocks
  put("many.jsonl", source);
  const std::int64_t longest =
      timed({"history", "add", "many.jsonl", "--store", "h.sqlite", "--name", "first"});
  std::set<std::string> names{"first"};
  std::uint32_t runs = 0, kills = 0;
  for (; kills < times && runs < most_runs * times; ++runs) {
    const std::uint32_t i = runs;
    const std::string name = "run" + std::to_string(i);
    const bool was_killed =
        killed({"history", "add", "many.jsonl", "--store", "h.sqlite", "--name", name}, longest, i);
    kills += was_killed ? 1 : 0;
    const bool is_told = !get("out.txt").empty();
    RunStore store(path("h.sqlite"), RunStore::Missing::refused);
    std::set<std::string> now;
    for (const StoredRun& run : store.runs()) now.insert(run.name);
    ASSERT_TRUE(std::includes(now.begin(), now.end(), names.begin(), names.end())) << i;
    const bool is_there = now.contains(name);
    ASSERT_TRUE(is_there || (was_killed && !is_told)) << "a run that was said to be kept";
    ASSERT_EQ(now.size(), names.size() + (is_there ? 1 : 0)) << i;
    std::string kept;
    const auto take = [&](std::string_view line, long) { kept.append(line).append("\n"); };
    if (is_there) store.for_each_line(name, take);
    ASSERT_EQ(kept == source, is_there) << "a run that is there in part";
    names = now;
  }
  EXPECT_EQ(kills, times);
  std::printf("history add: %u runs, %u killed, %zu kept\n", runs, kills, names.size() - 1);
}

/// The loss of every step of all runs of a log, "step loss".
std::set<std::string> steps_of(const std::string& log) {
  const train::LoggedRuns all = train::read_training_log(log);
  EXPECT_FALSE(all.is_torn);
  std::set<std::string> steps;
  for (const train::LoggedRun& run : all.runs)
    for (const train::StepResult& step : run.steps)
      steps.insert(std::to_string(step.step) + " " + hexadecimal(step.loss));
  return steps;
}

void Kill::train_is_killed(std::uint32_t times) {
  put("text.txt", tiny_text());
  put("small.toml",
      tiny_run(
          "policy = \"fp32-reproducible\"\nsteps = 30\nmicro_batches = 2\ncheckpoint_every = 3"));
  const Words words{"train", "small.toml", "--quiet", "--resume", "--checkpoint"};
  const auto with = [&](const char* checkpoints, const char* log) {
    Words all = words;
    all.insert(all.end(), {checkpoints, "--log", log});
    return all;
  };
  const std::int64_t longest = timed(with("whole", "whole.jsonl"));
  const std::string hash = get("out.txt");
  ASSERT_TRUE(hash.starts_with("hash: ")) << hash;
  const std::set<std::string> whole = steps_of(path("whole.jsonl"));
  ASSERT_EQ(whole.size(), 30U);
  std::uint32_t runs = 0, kills = 0, ends = 0;
  const auto is_at_end = [&] {
    if (!get("out.txt").starts_with("hash: ")) return false;
    EXPECT_EQ(get("out.txt"), hash);
    EXPECT_EQ(steps_of(path("log.jsonl")), whole);
    for (const char* made : {"c", "log.jsonl"}) std::filesystem::remove_all(path(made));
    ++ends;
    return true;
  };
  for (; kills < times && runs < most_runs * times; ++runs) {
    const std::uint32_t i = runs;
    const bool was_killed = killed(with("c", "log.jsonl"), longest, i);
    kills += was_killed ? 1 : 0;
    const bool has_log = std::filesystem::exists(path("log.jsonl"));
    const std::set<std::string> now = has_log ? steps_of(path("log.jsonl")) : whole;
    ASSERT_TRUE(std::includes(whole.begin(), whole.end(), now.begin(), now.end())) << "kill " << i;
    const bool has_ended = is_at_end();
    ASSERT_TRUE(has_ended || was_killed) << i;
  }
  timed(with("c", "log.jsonl"));
  EXPECT_TRUE(is_at_end());
  EXPECT_EQ(kills, times);
  std::printf("train: %u runs, %u killed, %u came to the end\n", runs, kills, ends);
}

TEST_F(Kill, run_keeps_whole_records) { run_is_killed(10); }
TEST_F(Kill, history_keeps_whole_runs) { history_is_killed(10); }
TEST_F(Kill, training_comes_to_the_same_bits) { train_is_killed(10); }
TEST_F(FullKill, run_keeps_whole_records) { run_is_killed(100); }
TEST_F(FullKill, history_keeps_whole_runs) { history_is_killed(100); }
TEST_F(FullKill, training_comes_to_the_same_bits) { train_is_killed(100); }

// The planted faults: files as a program would leave them that loses or tears its lines.

TEST(KillTester, lost_and_torn_lines_are_seen) {
  const std::vector<std::string> before{"a"}, whole{"b", "c", "d"};
  const auto wrong = [&](const std::string& text) {
    return wrong_of(lines_of(text), before, whole);
  };
  EXPECT_EQ(wrong("a\n"), "");
  EXPECT_EQ(wrong("a\nb\nc\n"), "");
  EXPECT_EQ(wrong(""), "lost: line 1");
  EXPECT_EQ(wrong("b\n"), "lost: line 1");
  EXPECT_EQ(wrong("a\nb\nc"), "torn: line 3");
  EXPECT_EQ(wrong("a\nb"), "torn: line 2");
  EXPECT_EQ(wrong("a\nc\n"), "not what the run says: line 2");
  EXPECT_EQ(wrong("a\nb\nc\nd\nd\n"), "not what the run says: line 5");
}

}  // namespace
}  // namespace opbound
