// opbound train --audit as a user runs it: what it says, what it keeps and how it ends. (The
// program's name has "plugin" in it, so that the tests' plug-ins are built for it.)
#include "reports/history.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

/// One layer of width 16 over 8 tokens, its GELU by a plug-in where a policy says so.
constexpr const char* tiny = R"(
data = "text.txt"
steps = 5
micro_batches = 2
sequences = 1
policy = "POLICY"
[model]
layers = 1
heads = 2
width = 16
context = 8
activation = "gelu"
)";

class ProgramAudit : public Program {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the cat sat on mat " + std::to_string(i % 7) + ".\n";
    put("text.txt", text);
    put_run("own.toml", "bf16");
    put("foreign_policy.toml",
        "[[rule]]\nprecision = \"fp32\"\n[[rule]]\nop = \"mlp:gelu\"\nvariant = \"erfc\"\n"
        "provider = \"" OPBOUND_PLUGINS "/trained_gelu.so\"\n");
    put_run("foreign.toml", "foreign_policy.toml");
  }
  void put_run(const std::string& name, const std::string& policy) const {
    std::string text = tiny;
    text.replace(text.find("POLICY"), 6, policy);
    put(name, text);
  }
};

TEST_F(ProgramAudit, TellsWhatItDidAndKeepsRecords) {
  const Ran ran = opbound("train own.toml --no-report --audit 2 --audit-out audit.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("opbound: audit: 3 steps, "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find(", 0 findings; an audited step took "), std::string::npos) << ran.err;
  std::size_t of_step_4 = 0;
  for (const Record& r : read_records(path("audit.jsonl"))) {
    EXPECT_EQ(r.verdict, Verdict::within) << print_record(r);
    of_step_4 += r.in_situ->step == 4 ? 1 : 0;
  }
  EXPECT_GT(of_step_4, 0U);
  EXPECT_EQ(opbound("table audit.jsonl").code, 0);
  EXPECT_EQ(opbound("explain audit.jsonl").code, 0);
  const Ran quiet = opbound("train own.toml --quiet --audit 2");
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(quiet.out, ran.out) << "the same bits";
}

TEST_F(ProgramAudit, JudgesEverythingWhereItShall) {
  const Ran ran =
      opbound("train own.toml --steps 1 --audit 1 --audit-certified --audit-out a.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const Record& r : read_records(path("a.jsonl")))
    if (r.blocks) {
      EXPECT_GT(r.counts.checked, 0U);
      EXPECT_NE(r.kind, CheckKind::statistical);
    }
}

TEST_F(ProgramAudit, SomebodyElsesKernelIsJudgedByItsContract) {
  const std::string let = "export OPBOUND_PLUGINS=" OPBOUND_PLUGINS "/trained_gelu.so; ";
  const Ran clean = shell(let + OPBOUND_PROGRAM +
                          " train foreign.toml --no-report --audit 1 --audit-out a.jsonl");
  EXPECT_EQ(clean.code, 0) << clean.err;
  std::size_t foreign = 0;
  for (const Record& r : read_records(path("a.jsonl")))
    foreign += r.provider == "trained_gelu" ? 1 : 0;
  EXPECT_EQ(foreign, 5U * 2 * 2) << "steps, micro-batches, both directions";
  const Ran ran = shell(let + "OPBOUND_TEST_FAULT=slope " OPBOUND_PROGRAM
                              " train foreign.toml --quiet --audit 4");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(ran.out.starts_with("hash: ")) << ran.out;
  EXPECT_NE(ran.err.find("opbound: audit: step 4, rank 0, micro-batch 1, layer 0, mlp:gelu "
                         "backward_local, call "),
            std::string::npos)
      << ran.err;
}

TEST_F(ProgramAudit, RefusesWhatCannotBe) {
  EXPECT_NE(refusal("train own.toml --audit 0").find("--audit"), std::string::npos);
  EXPECT_NE(refusal("train own.toml --audit-out a.jsonl").find("--audit"), std::string::npos);
  EXPECT_NE(refusal("train own.toml --audit 1 --audit-out nowhere/a.jsonl").find("nowhere/a.jsonl"),
            std::string::npos);
}

}  // namespace
}  // namespace opbound
