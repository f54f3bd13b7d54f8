// opbound train as a user runs it: what it prints, keeps and refuses.
#include <csignal>

#include "distributed/train/log.hpp"
#include "tests/program.hpp"
#include "tests/tiny_run.hpp"

namespace opbound {
namespace {

std::string tiny_file() {
  return tiny_run("policy = \"fp32-reproducible\"\nsteps = 6\nmicro_batches = 4");
}

class ProgramTrain : public Program {
 protected:
  void SetUp() override {
    put("text.txt", tiny_text());
    put("tiny.toml", tiny_file());
  }
  /// The last line of a quiet run, which is all that it prints.
  std::string hash(const std::string& words) const {
    const Ran ran = opbound("train tiny.toml --quiet " + words);
    EXPECT_EQ(ran.code, 0) << words << ": " << ran.err;
    EXPECT_EQ(ran.err, "") << words;
    EXPECT_TRUE(ran.out.starts_with("hash: ") && ran.out.size() == 6 + 16 + 1) << ran.out;
    return ran.out;
  }
  /// A run that gets a signal once its log has step 12.
  Ran signalled(const std::string& signal, const std::string& words,
                const std::string& log = "log.jsonl") const {
    return shell(OPBOUND_PROGRAM " " + words + " --log " + log +
                 " & p=$!; until grep -q '\"step\":12,' " + log +
                 " 2>/dev/null || ! kill -0 $p; do sleep 0.02; done; kill -" + signal +
                 " $p; wait $p");
  }
  train::LoggedRun log(const std::string& name) const {
    const train::LoggedRuns all = train::read_training_log(path(name));
    EXPECT_EQ(all.runs.size(), 1U);
    return all.runs.back();
  }
};

TEST_F(ProgramTrain, TrainsAndReports) {
  const Ran ran = opbound("train tiny.toml --log log.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err,
            "opbound: tiny, policy fp32-reproducible, 1 rank on cpu: the report comes at the end, "
            "--log has each step as it is done\n")
      << "no terminal, no progress";
  EXPECT_TRUE(ran.out.starts_with("tiny of ")) << ran.out;
  EXPECT_NE(ran.out.find("policy fp32-reproducible, 1 rank of cpu, one rank\n"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("\nfinished after 6 steps\nhash: "), std::string::npos) << ran.out;
  const train::LoggedRun run = log("log.jsonl");
  ASSERT_EQ(run.steps.size(), 6U);
  EXPECT_LT(run.steps.back().loss, run.steps.front().loss);
  EXPECT_EQ(run.steps[0].tokens, 4 * 8);
  EXPECT_EQ(run.first().data_sha256.size(), 64U);
  EXPECT_FALSE(run.first().environment.empty());
  ASSERT_TRUE(run.result && run.result->result);
  EXPECT_TRUE(ran.out.ends_with("hash: " + train::text_of_hash(run.result->result->hash) + "\n"));
}

TEST_F(ProgramTrain, TheHashIsOfWhatIsTrained) {
  const std::string first = hash("");
  EXPECT_EQ(hash(""), first);
  EXPECT_EQ(hash("--log log.jsonl --no-report --device cpu"), first);
  EXPECT_NE(hash("--seed 2"), first);
  EXPECT_NE(hash("--steps 5"), first);
  EXPECT_NE(hash("--policy bf16"), first);
  EXPECT_NE(hash("--micro-batches 2"), first);
  EXPECT_NE(hash("--sequences 2"), first);
  put("other.txt", std::string(2000, 'a'));
  EXPECT_NE(hash("--data other.txt"), first);
  EXPECT_EQ(opbound("train tiny.toml --no-report").out, first);
}

TEST_F(ProgramTrain, EveryReadyPolicyTrains) {
  for (const std::string& policy : train::own_policies()) {
    const Ran ran =
        opbound("train tiny.toml --steps 2 --log " + policy + ".jsonl --policy " + policy);
    EXPECT_EQ(ran.code, 0) << policy << ": " << ran.err;
    const train::LoggedRun run = log(policy + ".jsonl");
    ASSERT_EQ(run.steps.size(), 2U) << policy;
    EXPECT_TRUE(std::isfinite(run.steps[0].loss)) << policy;
    EXPECT_EQ(run.first().spec["policy"]["name"], policy);
  }
}

TEST_F(ProgramTrain, EveryNumberOfRanksGivesTheSameHash) {
  const std::string one = hash("--log one.jsonl");
  for (const std::string ranks : {"2", "4"}) {
    const Ran ran = shell(
        "export WORLD_SIZE=" + ranks +
        " MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)); "
        "for r in 3 2 1 0; do [ $r -ge " +
        ranks + " ] || RANK=$r LOCAL_RANK=$r " OPBOUND_PROGRAM " train tiny.toml --quiet --log " +
        ranks + ".jsonl & done; wait");
    EXPECT_EQ(ran.out, one) << ranks << ": " << ran.err;
    const train::LoggedRun run = log(ranks + ".jsonl"), alone = log("one.jsonl");
    EXPECT_EQ(std::to_string(run.first().ranks), ranks);
    ASSERT_EQ(run.steps.size(), alone.steps.size());
    for (std::size_t i = 0; i < run.steps.size(); ++i)
      EXPECT_EQ(run.steps[i].loss, alone.steps[i].loss) << ranks << " ranks, step " << i;
  }
}

TEST_F(ProgramTrain, MpirunGivesTheSameHash) {
  const auto folder = std::filesystem::path(OPBOUND_PROGRAM).parent_path();
  if (!std::filesystem::exists(folder / "libopbound_mpi.so")) GTEST_SKIP() << "built without MPI";
  if (shell("command -v mpirun").code != 0) GTEST_SKIP() << "no mpirun";
  const Ran ran = shell(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun "
      "--oversubscribe "
      "-np 2 " OPBOUND_PROGRAM " train tiny.toml --quiet");
  EXPECT_EQ(ran.out, hash("")) << ran.err;
}

TEST_F(ProgramTrain, WeightsGoOutAndIn) {
  const std::string first = hash("--save-weights w.safetensors");
  EXPECT_FALSE(get("w.safetensors").empty());
  const std::string more = hash("--weights w.safetensors --steps 2");
  EXPECT_NE(more, first);
  EXPECT_EQ(hash("--weights w.safetensors --steps 2"), more);
}

TEST_F(ProgramTrain, ResumesWhereItStopped) {
  const std::string whole = hash("--log whole.jsonl");
  hash("--steps 4 --checkpoint c --log log.jsonl");
  EXPECT_EQ(hash("--checkpoint c --resume --log log.jsonl"), whole);
  const train::LoggedRun run = log("log.jsonl"), straight = log("whole.jsonl");
  EXPECT_EQ(run.parts.size(), 2U);
  EXPECT_EQ(run.parts[1].first_step, 4);
  ASSERT_EQ(run.steps.size(), straight.steps.size());
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    EXPECT_EQ(run.steps[i].loss, straight.steps[i].loss) << i;
}

TEST_F(ProgramTrain, ResumingNothingBeginsAndSaysSo) {
  const Ran ran = opbound("train tiny.toml --quiet --checkpoint c --resume");
  EXPECT_EQ(ran.out, hash(""));
  EXPECT_EQ(ran.err, "opbound: no checkpoint to resume in c: from the beginning\n");
}

// The rate is the same in every step, so that a run may go on to another last step than it had.
TEST_F(ProgramTrain, AnInterruptLeavesACheckpointThatGoesOn) {
  const Ran stopped = signalled("INT", "train tiny.toml --steps 1000000 --quiet");
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  const train::LoggedRun run = log("log.jsonl");
  ASSERT_TRUE(run.result);
  EXPECT_EQ(run.result->end, train::RunEnd::interrupted);
  EXPECT_EQ(stopped.err, "opbound: interrupted after step " + std::to_string(run.steps.size()) +
                             "; --resume goes on from tiny.checkpoints\n");
  const std::string steps = std::to_string(run.steps.size() + 10);
  EXPECT_NE(
      refusal("train tiny.toml --checkpoint tiny.checkpoints").find("expected --resume to go on"),
      std::string::npos);
  const Ran second = signalled("INT", "train tiny.toml --steps 1000000 --quiet", "l2.jsonl");
  EXPECT_EQ(second.code, 130) << second.err;
  EXPECT_NE(second.err.find("; --checkpoint tiny.checkpoints-2 --resume goes on from it\n"),
            std::string::npos)
      << second.err;
  const std::string resumed = hash("--resume --log log.jsonl --steps " + steps);
  std::filesystem::remove_all(path("tiny.checkpoints"));
  EXPECT_EQ(resumed, hash("--steps " + steps));
  EXPECT_EQ(std::to_string(log("log.jsonl").steps.size()), steps);
}

TEST_F(ProgramTrain, AKilledRunGoesOnFromItsLastCheckpoint) {
  put("often.toml", "checkpoint_every = 5\n" + tiny_file());
  const std::string words = "train often.toml --checkpoint c --quiet --steps ";
  signalled("KILL", words + "1000000");
  const train::LoggedRun run = log("log.jsonl");
  EXPECT_FALSE(run.result);
  const std::string steps = std::to_string(run.steps.size() + 10);
  const Ran rest = opbound(words + steps + " --resume --log log.jsonl");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.out, hash("--steps " + steps));
  EXPECT_EQ(std::to_string(log("log.jsonl").steps.size()), steps);
}

TEST_F(ProgramTrain, BadUseIsOneLine) {
  EXPECT_NE(refusal("train").find("file is required"), std::string::npos);
  EXPECT_EQ(refusal("train none.toml").substr(0, 18), "opbound: none.toml");
  EXPECT_NE(refusal("train nano").find("expected opbound train "), std::string::npos);
  EXPECT_EQ(refusal("train tiny.toml --policy bf61").substr(0, 55),
            "opbound: --policy: unknown policy 'bf61' (bf16?), expec");
  const std::string missing = refusal("train tiny.toml --policy mine.toml");
  EXPECT_TRUE(missing.starts_with("opbound: --policy: no policy's file 'mine.toml', expected one "
                                  "of bf16, ") &&
              missing.ends_with(", or a file that exists, named with a '.' or '/'\n"))
      << missing;
  put("policy.toml", "[[rule]]\nlayers = 7\nprecision = \"fp64\"\n");
  EXPECT_EQ(refusal("train tiny.toml --policy ./policy.toml"),
            "opbound: --policy: ./policy.toml:1: layer 7, expected a layer from 0 to 0 of model "
            "tiny\n");
  EXPECT_EQ(refusal("train tiny.toml --policy policy.toml"),
            "opbound: --policy: policy.toml:1: layer 7, expected a layer from 0 to 0 of model "
            "tiny\n");
  refusal("train tiny.toml --steps 0");
  refusal("train tiny.toml --sharding zero3");
  refusal("train tiny.toml --data none.txt");
  refusal("train tiny.toml --weights none.safetensors");
  refusal("train tiny.toml --device gpu");
  const std::string absent = refusal("train tiny.toml --device cuda:63");
  EXPECT_TRUE(absent.starts_with("opbound: --device: ") && absent.ends_with(", expected cpu\n"))
      << absent;
  EXPECT_EQ(refusal("train tiny.toml --steps 2 --trace t.trace --trace-bits 2"),
            "opbound: --trace-bits: 2, expected 0 to 1\n");
  EXPECT_EQ(opbound("train tiny.toml --steps 2 --quiet --trace t.trace --trace-bits 1").code, 0);
  const std::string expected =
      ", expected a training file in TOML such as suites/training/nano.toml\n";
  EXPECT_EQ(refusal("train t.trace"),
            "opbound: t.trace: a trace, or another SQLite database" + expected);
  put("junk", "my notes\n");
  const std::string junk = refusal("train junk");
  EXPECT_TRUE(junk.starts_with("opbound: junk:1: ") && junk.ends_with(expected)) << junk;
  put("notes.txt", "my notes\n");
  refusal("train tiny.toml --log notes.txt");
  EXPECT_EQ(get("notes.txt"), "my notes\n");
  put("short.txt", "abc");
  refusal("train tiny.toml --data short.txt");
}

TEST_F(ProgramTrain, EvaluatesAgainstAPolicyOrOtherWeights) {
  hash("--save-weights w.safetensors --checkpoint c");
  const std::string same = "KL 0 nats, top-1 equal 100%, lengths equal 100 of 100, not finite 0\n";
  EXPECT_EQ(opbound("train tiny.toml --quiet --checkpoint c --evaluate w.safetensors").out, same);
  const Ran table = opbound("train tiny.toml --weights w.safetensors --evaluate bf16");
  EXPECT_NE(table.out.find("a: fp32-reproducible of w.safetensors; b: bf16 of w.safetensors"),
            std::string::npos)
      << table.out;
  EXPECT_EQ(
      table.err,
      "opbound: fp32-reproducible of w.safetensors beside bf16 of w.safetensors, 100 prompts: "
      "the table comes at the end\n");
  EXPECT_EQ(refusal("train tiny.toml --evaluate bf16"),
            "opbound: --evaluate: no weights, expected --weights FILE.safetensors, or --checkpoint "
            "FOLDER, of a trained model\n");
  refusal("train tiny.toml --weights w.safetensors --evaluate bf61");
  refusal("train tiny.toml --weights w.safetensors --evaluate none.safetensors");
  refusal("train tiny.toml --weights w.safetensors --evaluate bf16 --resume");
}

/// A log is no file of records: `table` tells of its runs, `explain` says who does.
TEST_F(ProgramTrain, ALogIsToldByTable) {
  const Ran ran = opbound("train tiny.toml --log log.jsonl");
  const std::string report = ran.out.substr(0, ran.out.find("hash: "));
  EXPECT_EQ(opbound("table log.jsonl").out, report);
  hash("--log log.jsonl --seed 2");
  const std::string both = opbound("table log.jsonl").out;
  EXPECT_TRUE(both.starts_with(report + "\ntiny of ")) << both;
  EXPECT_EQ(refusal("table log.jsonl --csv"),
            "opbound: --csv: log.jsonl is a training log, expected records of checks\n");
  EXPECT_EQ(refusal("explain log.jsonl:2"),
            "opbound: log.jsonl: a training log, not records of checks, expected opbound table "
            "log.jsonl, which tells of its runs\n");
  for (const char* seed : {"-1", "9223372036854775808"})
    EXPECT_NE(refusal(std::string("train tiny.toml --seed ") + seed).find("a seed from 0 to"),
              std::string::npos);
}

TEST_F(ProgramTrain, OneRankTellsOfBadUseAndOthersWhoTheyAre) {
  EXPECT_EQ(shell("RANK=1 WORLD_SIZE=2 " OPBOUND_PROGRAM " train none.toml").err, "");
  const Ran ran = shell("RANK=1 WORLD_SIZE=2 MASTER_PORT=x " OPBOUND_PROGRAM " train tiny.toml");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(ran.err.starts_with("opbound: rank 1: ")) << ran.err;
}

TEST_F(ProgramTrain, AFullDiskIsAnError) {
  const Ran ran = opbound("train tiny.toml --quiet --log /dev/full");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("/dev/full"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace opbound
