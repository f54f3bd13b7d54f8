// Traces, their comparison and the sentinel as a user runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reports/sqlite.hpp"
#include "tests/program.hpp"
#include "tests/tiny_run.hpp"

namespace opbound::trace {
namespace {

class ProgramTrace : public Program {
 protected:
  const std::string train_ =
      "train " OPBOUND_SOURCE_DIR "/suites/training/nano.toml --steps 3 --no-report --quiet ";
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ProgramTrace, TwoRunsThatComputeTheSameAgreeInEveryBit) {
  EXPECT_EQ(opbound(train_ + "--trace a.trace").code, 0);
  EXPECT_EQ(opbound(train_ + "--trace b.trace --against a.trace").code, 0);
  const Ran same = opbound("trace diff a.trace b.trace");
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_TRUE(has(same.out, "every bit has to agree\nno alarm")) << same.out;
  EXPECT_TRUE(has(same.out, "verdict: within, every bit of 3 steps agrees")) << same.out;
  const Ran shown = opbound("trace show a.trace");
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(has(shown.out, "3 steps")) << shown.out;
  EXPECT_EQ(opbound(train_ + "--policy bf16 --trace c.trace").code, 0);
  const Ran other = opbound("trace diff a.trace c.trace");
  EXPECT_EQ(other.code, 0);
  EXPECT_TRUE(has(other.out, "policy.name fp32-reproducible / bf16")) << other.out;
  EXPECT_TRUE(has(other.out, "limits: this pair has none without --twins")) << other.out;
  EXPECT_TRUE(has(other.out, "verdict: undecided")) << other.out;
}

TEST_F(ProgramTrace, LossesHaveLimitsByTwinsToo) {
  const std::string fine = train_ + "--policy fp32 --trace-bits 1 --trace ";
  EXPECT_EQ(opbound(fine + "a.trace").code, 0);
  for (const char* seed : {"1", "2", "3", "4"})
    EXPECT_EQ(opbound(fine + "t" + seed + ".trace --twin " + seed).code, 0);
  const std::string diff = "trace diff a.trace t4.trace --twins t1.trace t2.trace t3.trace";
  const Ran clean = opbound(diff);
  EXPECT_EQ(clean.code, 0) << clean.out;
  EXPECT_TRUE(has(clean.out, "verdict: within\n")) << clean.out;
  const auto change = [&](const char* sql) {
    sqlite::Database(path("t4.trace"), false, 1000, "a trace").execute(sql);
  };
  change("UPDATE step SET loss = loss + 1 WHERE step = 2");
  const Ran off = opbound(diff);
  EXPECT_EQ(off.code, 1) << off.out;
  EXPECT_TRUE(has(off.out, "ALARM at step 2, 1 of 3 steps: the loss by 1, limit ")) << off.out;
  EXPECT_TRUE(has(off.out, "verdict: exceeds\n")) << off.out;
  change("UPDATE bits SET phase = 7 WHERE phase = 2");
  EXPECT_TRUE(has(refusal("trace diff a.trace t4.trace"), "t4.trace: a call of phase 7"));
}

TEST_F(ProgramTrace, ASentinelThatStaysQuietSaysThatItWatched) {
  std::string loud = train_;
  loud.erase(loud.find("--quiet "), 8);
  EXPECT_TRUE(
      has(opbound(loud + "--sentinel").err, "opbound: sentinel: 3 steps watched, no alarm\n"));
  EXPECT_FALSE(has(opbound(train_ + "--sentinel").err, "watched")) << "--quiet";
  EXPECT_FALSE(has(opbound(loud).err, "sentinel")) << "there is none";
}

TEST_F(ProgramTrace, RunsOfOtherLengthAreToldTheirLengths) {
  std::string shorter = train_;
  shorter.replace(shorter.find("--steps 3"), 9, "--steps 2");
  EXPECT_EQ(opbound(train_ + "--trace a.trace").code, 0);
  EXPECT_EQ(opbound(shorter + "--trace b.trace").code, 0);
  const Ran diff = opbound("trace diff a.trace b.trace");
  EXPECT_TRUE(has(diff.out, "A has 3 steps, B 2: 2 steps are in both and compared\n")) << diff.out;
}

/// Where each line of the table under this title ends.
std::vector<std::size_t> ends_of_table(const std::string& text, std::string_view title) {
  std::vector<std::size_t> ends;
  for (std::size_t at = text.find(title); at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == at) break;
    ends.push_back(end - at);
    at = end + 1;
  }
  return ends;
}

TEST_F(ProgramTrace, TitlesStandOverTheirNumbersHoweverWideTheseAre) {
  EXPECT_EQ(opbound(train_ + "--trace a.trace").code, 0);
  EXPECT_EQ(opbound(train_ + "--policy bf16 --trace b.trace").code, 0);
  {
    sqlite::Database file(path("b.trace"), false, 1000, "a trace");
    file.execute("UPDATE step SET loss = 1.23456e-300, gradient_norm = 9.87654e+300");
  }
  for (const auto& [words, title] : {std::pair{"trace show b.trace", "step"},
                                     std::pair{"trace diff a.trace b.trace", "step "}}) {
    const Ran ran = opbound(words);
    const std::string table = ran.out.substr(std::min(ran.out.find("\nstep"), ran.out.size()));
    const std::vector<std::size_t> ends = ends_of_table(table, title);
    ASSERT_GE(ends.size(), 4U) << ran.out << ran.err;
    for (const std::size_t end : ends) EXPECT_EQ(end, ends.front()) << ran.out;
  }
}

TEST_F(ProgramTrace, WhatIsPrintedAndKeptDoesNotDependOnTheNumberOfWorkers) {
  put("text.txt", tiny_text());
  std::string tiny = tiny_run("policy = \"fp32\"\nmicro_batches = 2\nsteps = 2");
  tiny.replace(tiny.find("layers = 1"), 10, "layers = 2");
  put("tiny.toml", tiny);
  const std::string words =
      "sentinel tiny.toml --fault sampler_slip --fault clamped_loss --fault nan_on_one_rank "
      "--first-step 2 --cap 3 --twins 2 --audit 2 --policy fp32 --policy fp8 --clean-steps 2 ";
  const Ran one = opbound(words + "--workers 1 --out 1.jsonl");
  EXPECT_EQ(one.code, 0) << one.out << one.err;
  for (const char* workers : {"2", "7"}) {
    const std::string out = std::string(workers) + ".jsonl";
    const Ran some = opbound(words + "--quiet --workers " + workers + " --out " + out);
    EXPECT_EQ(some.out, one.out);
    EXPECT_EQ(some.err, "") << "--quiet";
    EXPECT_EQ(get(out), get("1.jsonl"));
  }
  EXPECT_TRUE(has(one.err, "opbound: clean run of policy fp8\n")) << one.err;
  EXPECT_FALSE(has(one.err, "\r")) << "standard error is no terminal here";
}

TEST_F(ProgramTrace, WhatIsWrongIsToldInOneLine) {
  EXPECT_EQ(opbound(train_ + "--trace a.trace").code, 0);
  EXPECT_TRUE(has(refusal(train_ + "--trace a.trace"), "a.trace: there is a file already"));
  EXPECT_TRUE(has(refusal("trace show none.trace"), "none.trace: no such file"));
  EXPECT_TRUE(has(refusal("trace diff a.trace none.trace"), "none.trace: no such file"));
  EXPECT_TRUE(has(refusal(train_ + "--policy bf16 --against a.trace"),
                  "a run that need not give this run's bits (policy."));
  EXPECT_TRUE(has(refusal("trace diff a.trace a.trace --twins a.trace"), "at least 2 traces"));
  EXPECT_TRUE(has(refusal(train_ + "--against none.trace"), "none.trace: no such file"));
  EXPECT_TRUE(has(refusal(train_ + "--on-alarm stop"), "nothing raises alarms"));
  EXPECT_TRUE(has(refusal(train_ + "--sentinel --on-alarm roll-back"), "without checkpoints"));
  EXPECT_TRUE(has(refusal(train_ + "--watch-norms"), "nothing watches"));
  EXPECT_TRUE(has(refusal(train_ + "--trace-prompts 2"), "nothing keeps or compares"));
  EXPECT_TRUE(has(refusal(train_ + "--weights w --evaluate bf16 --sentinel"), "--evaluate"));
  EXPECT_TRUE(has(refusal("sentinel"), "no run"));
  EXPECT_TRUE(
      has(refusal("sentinel " OPBOUND_SOURCE_DIR "/suites/training/nano.toml --fault truncate"),
          "'truncate'"));
  EXPECT_TRUE(has(refusal("sentinel " OPBOUND_SOURCE_DIR
                          "/suites/training/nano.toml --policy bf61 --out o.jsonl"),
                  "bf61"));
  EXPECT_FALSE(std::filesystem::exists(path("o.jsonl")));
  put("text.txt", tiny_text());
  put("tiny.toml", tiny_run("policy = \"fp32\"\nsteps = 2"));
  EXPECT_TRUE(has(refusal("sentinel tiny.toml"), "tiny.toml: faults cannot be planted"));
}

}  // namespace
}  // namespace opbound::trace
