// opbound attribute as a user runs it: what it prints, keeps and refuses.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "distributed/trace/trace.hpp"
#include "distributed/train/log.hpp"
#include "tests/program.hpp"
#include "tests/tiny_run.hpp"

namespace opbound {
namespace {

class ProgramAttribute : public Program {
 protected:
  void SetUp() override {
    put("text.txt", tiny_text());
    put("tiny.toml",
        tiny_run("policy = \"bf16\"\nsteps = 6\nmicro_batches = 2\ncheckpoint_every = 2"));
    EXPECT_EQ(opbound("train tiny.toml --quiet --log run.jsonl --checkpoint kept").code, 0);
  }
  std::string attributed(const std::string& words) const {
    const Ran ran = opbound("attribute " + words);
    EXPECT_EQ(ran.code, 0) << words << ": " << ran.err;
    EXPECT_EQ(ran.err, "") << words;
    return ran.out;
  }
  /// One line on standard error, exit code 2, nothing printed.
  void refused(const std::string& words, const std::string& line) const {
    const Ran ran = opbound("attribute " + words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_EQ(ran.out, "") << words;
    EXPECT_EQ(ran.err, "opbound: " + line + "\n") << words;
  }
};

TEST_F(ProgramAttribute, TellsOfAStepOfALog) {
  const std::string text = attributed("run.jsonl --step 3");
  EXPECT_TRUE(text.starts_with("step 3, mean of 2 micro-batches: loss ")) << text;
  for (const char* word :
       {"\nby op ", "\nby layer ", "\nby pass ", "\nby precision ", "\nlargest classes ",
        "\ngradient of the step ", "replay: no class", "mlp:gelu", "wte.weight"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  EXPECT_EQ(attributed("tiny.toml --step 3"), text) << "the same run, from its file";
  const std::string last = attributed("run.jsonl --step 3 --quiet");
  EXPECT_TRUE(text.ends_with(last) && last.starts_with("step 3: loss ")) << last;
}

TEST_F(ProgramAttribute, ACheckpointSavesTimeAndChangesNothing) {
  const std::string text = attributed("run.jsonl --step 5 --json");
  EXPECT_EQ(attributed("run.jsonl --step 5 --json --checkpoint kept"), text);
  const Ran early = opbound("attribute run.jsonl --step 1 --checkpoint kept --quiet");
  EXPECT_EQ(early.code, 0);
  EXPECT_EQ(early.err, "opbound: kept: no checkpoint of before step 1: from the beginning\n");
}

TEST_F(ProgramAttribute, KeepsRecords) {
  const std::string printed = attributed("run.jsonl --every 4 --json --out kept.jsonl");
  const Ran kept = shell("cat kept.jsonl");
  EXPECT_EQ(kept.out, printed);
  std::set<std::string> kinds;
  std::set<std::int64_t> steps;
  double predicted = 0, sum = 0;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line);
    EXPECT_EQ(j["schema"], 1);
    kinds.insert(j["kind"]);
    steps.insert(j["step"].get<std::int64_t>());
    if (j["kind"] == "attribution") predicted += j["predicted"].get<double>();
    if (j["kind"] == "attribution_class") sum += j["loss"].get<double>();
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"attribution", "attribution_class",
                                          "attribution_gradient", "attribution_parameter"}));
  EXPECT_EQ(steps, (std::set<std::int64_t>{0, 4}));
  EXPECT_LE(std::abs(sum - predicted), std::abs(predicted) * 0x1p-40);
}

TEST_F(ProgramAttribute, SwapsAreSaidNotToAddUp) {
  const std::string text = attributed("tiny.toml --step 0 --swap matmul=fp32 --no-replay");
  EXPECT_NE(text.find("matmul=fp32"), std::string::npos);
  EXPECT_NE(text.find("do not add up"), std::string::npos);
  EXPECT_EQ(text.find("replay"), std::string::npos);
}

TEST_F(ProgramAttribute, TakesATrace) {
  const train::LoggedRuns log = train::read_training_log(path("run.jsonl"));
  const auto write = [&](const std::string& name, double wrong) {
    trace::TraceFile file(path(name), trace::TraceFile::Open::make);
    file.write_head({.spec = log.runs[0].first().spec.dump(),
                     .source = "a test",
                     .device = "cpu",
                     .data_sha256 = log.runs[0].first().data_sha256,
                     .ranks = 1,
                     .providers = {},
                     .environment = {}},
                    {});
    for (const train::StepResult& step : log.runs[0].steps) {
      trace::TraceStep to;
      to.step = step.step;
      to.loss = step.loss + wrong;
      file.write(to, {});
    }
  };
  write("run.trace", 0);
  EXPECT_EQ(attributed("run.trace --step 1 --quiet"), attributed("run.jsonl --step 1 --quiet"));
  write("wrong.trace", 0x1p-40);
  const Ran wrong = opbound("attribute wrong.trace --step 1");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(wrong.err.starts_with("opbound: wrong.trace: step 0 has the loss 0x")) << wrong.err;
}

TEST_F(ProgramAttribute, RefusesInOneLine) {
  refused("run.jsonl --step 6", "--step: 6, expected 0 to 5, as the run has");
  refused("run.jsonl --step 1 --micro-batch 2", "--micro-batch: 2, expected 0 to 1");
  refused("run.jsonl", "attribute: no step, expected --step STEP, or --every STEPS");
  refused("run.jsonl --step 1 --policy fp32",
          "--policy: a log has its policy, expected a training file, or no --policy");
  refused("run.jsonl --step 1 --run 2", "--run: 2, expected 1 to 1");
  refused("none.jsonl --step 1", "none.jsonl: no such file, expected a file that exists");
  refused("tiny.toml --step 1 --swap gleu",
          "--swap: no op 'gleu' (gelu?), expected one of head, mlp, embedding, layer_norm, "
          "rms_norm, matmul, rope, attention, gelu, swiglu, dropout, cross_entropy, residual");
  refused("tiny.toml --step 1 --swap rope=fp32",
          "--swap: no call of 'rope' in this run, expected an op that it runs");
  refused("tiny.toml --step 1 --swap gelu=e4m3",
          "--swap gelu: no kernel computes in e4m3, expected a precision that computes in fp64, "
          "fp32, bf16 or fp16");
}

TEST_F(ProgramAttribute, RefusesBeforeItRuns) {
  refused("tiny.toml --step 1 --swap matmul=foo",
          "--swap: 'foo', expected a precision or a provider");
  refused("tiny.toml --step 1 --swap matmul=./foo.so",
          "--swap: './foo.so', expected a precision or a provider");
  const std::string absent = refusal("attribute run.jsonl --step 1 --device cuda:63");
  EXPECT_TRUE(absent.starts_with("opbound: --device: ") && absent.ends_with(", expected cpu\n"))
      << absent;
  EXPECT_EQ(opbound("train tiny.toml --quiet --steps 2 --trace twin.trace --twin 1").code, 0);
  refused("twin.trace --step 1",
          "twin.trace: the trace of a twin (--twin 1), expected the run itself");
}

TEST_F(ProgramAttribute, RefusesALogOfAnotherRun) {
  shell("sed 's/\"seed\":1/\"seed\":2/' run.jsonl >other.jsonl");
  const Ran seed = opbound("attribute other.jsonl --step 2");
  EXPECT_EQ(seed.code, 2);
  EXPECT_TRUE(seed.err.starts_with("opbound: other.jsonl: step 0 has the loss 0x")) << seed.err;
  EXPECT_EQ(std::count(seed.err.begin(), seed.err.end(), '\n'), 1);
  shell("cat text.txt text.txt >more.txt");
  const Ran text = opbound("attribute run.jsonl --step 2 --data more.txt");
  EXPECT_TRUE(text.err.starts_with("opbound: more.txt: another text than that of run.jsonl"))
      << text.err;
  const Ran elsewhere = opbound("attribute tiny.toml --policy fp32 --step 5 --checkpoint kept");
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_TRUE(elsewhere.err.starts_with("opbound: kept: a checkpoint of another run: 'policy'"))
      << elsewhere.err;
}

}  // namespace
}  // namespace opbound
