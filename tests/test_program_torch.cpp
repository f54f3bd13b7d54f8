// opbound run --provider torch: the plug-in of ops/providers/torch beside the program, and its
// absence.
#include <algorithm>
#include <filesystem>

#include "reports/history.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

class ProgramTorch : public Program {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(OPBOUND_PROGRAM).parent_path() / "libopbound_torch.so"))
      GTEST_SKIP() << "built without torch";
  }

  /// The records of a suite of one op, whose lines follow `op = ...`.
  std::vector<Record> records_of(const std::string& op, const std::string& lines) {
    put(op + ".toml", "op = \"" + op + "\"\n[[case]]\n" + lines);
    std::filesystem::remove(path("r.jsonl"));
    const Ran ran = opbound("run " + op + ".toml --provider torch --out r.jsonl");
    EXPECT_NE(ran.code, 2) << ran.err;
    return read_records(path("r.jsonl"));
  }

  void expect_within(const std::string& op, const std::string& lines) {
    const std::vector<Record> records = records_of(op, lines);
    EXPECT_FALSE(records.empty());
    for (const Record& r : records)
      EXPECT_EQ(r.verdict, Verdict::within)
          << op << " " << r.direction << " " << r.part << " " << r.precision << ": " << r.reason;
  }

  /// Every record is skipped, for a reason that has these words.
  void expect_skipped(const std::string& op, const std::string& lines, const std::string& words) {
    const std::vector<Record> records = records_of(op, lines);
    EXPECT_FALSE(records.empty());
    for (const Record& r : records) {
      EXPECT_EQ(r.verdict, Verdict::skipped) << r.part;
      EXPECT_NE(r.reason.find(words), std::string::npos) << r.reason;
    }
  }
};

TEST_F(ProgramTorch, keeps_the_contracts_of_its_kernels) {
  expect_within("softmax", R"toml(precision = ["fp64", "fp32"]
attributes = {log = [false, true]}
direction = ["forward", "backward_local", "backward_full"]
variant = ["division", "log_of_sum"]
shape = [[3, 40], [1, 1], [5, 129]]
input = {x = ["normal(sigma=5)", "normal @transposed", "normal @unaligned"], dy = "normal"}
)toml");
  expect_within("matmul", R"toml(precision = ["fp64", "fp32"]
attributes = {alpha = [1, 0.3], beta = [0, 0.7], bias = [false, true]}
direction = ["forward", "backward_local"]
shape = [7, 9, 33]
input = {a = "normal", b = "normal", c = "normal", bias = "normal", dd = "normal"}
)toml");
  expect_within("logsumexp", R"toml(precision = ["fp32", "bf16"]
direction = ["forward", "backward_full"]
shape = [8, 40]
input = {x = "normal", dy = "normal"}
)toml");
  expect_within("adamw", R"toml(precision = "fp32"
shape = [3, 100]
input = {w = "normal", g = "normal", m = "normal(sigma=0.1)", v = "uniform(high=1)"}
)toml");
  expect_within("embedding", R"toml(precision = "fp32"
direction = ["forward", "backward_local"]
shape = [40, 7, 9]
input = {table = "normal", index = "index", dy = "normal"}
)toml");
}

TEST_F(ProgramTorch, says_what_it_is) {
  const std::vector<Record> records =
      records_of("cast", "precision = \"fp32:fp32:bf16\"\nshape = [64]\n");
  ASSERT_EQ(records.size(), 1U);
  const Record& r = records.front();
  EXPECT_EQ(r.verdict, Verdict::within);
  EXPECT_EQ(r.provider, "torch");
  EXPECT_EQ(r.device, "cpu");
  EXPECT_FALSE(r.provider_version.empty());
  for (const auto& entry : {std::pair<std::string, std::string>{"plugin", "torch"},
                            {"torch threads", "1"},
                            {"torch adamw", "single"}})
    EXPECT_NE(std::find(r.environment.begin(), r.environment.end(), entry), r.environment.end())
        << entry.first;
  const Ran again = opbound("explain r.jsonl --provider torch");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("run again: the same bits"), std::string::npos) << again.out;
}

/// tanh's derivative times an x^2 that overflows is 0 times infinity, in every version.
TEST_F(ProgramTorch, is_found_where_it_breaks_a_contract) {
  const std::vector<Record> records = records_of("gelu", R"toml(precision = "fp32"
attributes = {approximate = "tanh"}
variant = "one_plus_tanh"
direction = "backward_local"
shape = [64]
input = {x = "constant(value=1e30)", dy = "normal"}
)toml");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].verdict, Verdict::exceeds);
  EXPECT_EQ(records[0].nonfinite_mismatch, 64U);
}

TEST_F(ProgramTorch, what_it_does_not_do_is_skipped_with_its_reason) {
  expect_skipped("dropout", "precision = \"fp32\"\nshape = [4, 40]\n",
                 "its masks come from a generator of its own");
  expect_skipped("bias", "precision = \"fp32:bf16:bf16\"\nshape = [4, 40]\n",
                 "it computes fp32 in fp32, nothing else");
  expect_skipped("embedding", R"toml(precision = "fp32"
shape = [40, 7, 9]
input = {table = "normal", index = "same_index(value=7)"}
)toml",
                 "index out of range");  // torch's own words
  expect_skipped("recompute", "precision = \"fp32\"\nshape = [4, 8]\n",
                 "torch lists no kernel for recompute");
}

/// The program alone, without what is built beside it.
class ProgramTorchAbsent : public Program {};

TEST_F(ProgramTorchAbsent, skips_every_check) {
  put("gelu.toml", "op = \"gelu\"\n[[case]]\nprecision = \"fp32\"\nshape = [[64], [128]]\n");
  ASSERT_EQ(shell("cp '" OPBOUND_PROGRAM "' alone").code, 0);
  const Ran ran = shell("./alone run gelu.toml --provider torch --out r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_EQ(records.size(), 1U);  // one for all cases of an algorithm
  EXPECT_EQ(records[0].verdict, Verdict::skipped);
  EXPECT_EQ(records[0].reason, "torch: this build has no libopbound_torch.so");
  EXPECT_EQ(shell("./alone run gelu.toml --provider torch --require torch").code, 3);
}

}  // namespace
}  // namespace opbound
