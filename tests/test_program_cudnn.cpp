// opbound run --provider cudnn: the plug-in of ops/providers/cudnn beside the program, without a
// device and with one, and its absence.
#include <algorithm>
#include <filesystem>
#include <set>

#include "reports/history.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

constexpr const char* softmax = R"toml(op = "softmax"
[[case]]
precision = ["fp32", "bf16:fp32:bf16"]
direction = ["forward", "backward_local"]
shape = [[3, 40], [5, 128]]
)toml";

constexpr const char* layer_norm = R"toml(op = "layer_norm"
[[case]]
precision = ["fp32", "bf16:fp32:bf16"]
direction = ["forward", "backward_local"]
shape = [8, 128]
input = {x = "normal", gamma = "normal(mean=1, sigma=0.2)", beta = "normal", dy = "normal"}
)toml";

constexpr const char* rms_norm = R"toml(op = "rms_norm"
[[case]]
precision = ["fp32", "bf16:fp32:bf16"]
direction = ["forward", "backward_local"]
shape = [8, 128]
input = {x = "normal", gamma = "normal(mean=1, sigma=0.2)", dy = "normal"}
)toml";

constexpr const char* attention = R"toml(op = "attention"
[[case]]
precision = "bf16:fp32:bf16"
direction = ["forward", "backward_local"]
attributes = {p_format = "bf16", ds_format = "bf16", mask = ["none", "causal"]}
variant = "online_exp2"
shape = [2, 2, 64, 64, 64]
input = {q = "normal", k = "normal", v = "normal", do = "normal"}
)toml";

class ProgramCudnn : public Program {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(OPBOUND_PROGRAM).parent_path() / "libopbound_cudnn.so"))
      GTEST_SKIP() << "built without cuDNN's headers or its frontend's";
  }

  std::vector<Record> records_of(const std::string& op, const std::string& suite) {
    put(op + ".toml", suite);
    const std::string file = op + ".jsonl";
    const Ran ran = opbound("run " + op + ".toml --device cuda --provider cudnn --out " + file);
    EXPECT_TRUE(ran.code == 0 || ran.code == 1) << ran.err;
    return read_records(path(file));
  }
};

TEST_F(ProgramCudnn, says_what_it_is) {
  const std::vector<Record> records = records_of("softmax", softmax);
  ASSERT_FALSE(records.empty());
  for (const Record& r : records) {
    EXPECT_EQ(r.provider, "cudnn");
    EXPECT_FALSE(r.provider_version.empty());
    for (const char* name :
         {"cudnn", "cudnn runtime", "cudnn frontend", "cudnn deterministic", "plugin"})
      EXPECT_TRUE(std::any_of(r.environment.begin(), r.environment.end(), [&](const auto& e) {
        return e.first == name && !e.second.empty();
      })) << name;
  }
}

/// Without a device, or without the library: one reason, in a line, for every check.
TEST_F(ProgramCudnn, is_skipped_with_a_reason_where_it_cannot_run) {
  const std::vector<Record> records = records_of("softmax", softmax);
  ASSERT_FALSE(records.empty());
  for (const Record& r : records) {
    EXPECT_NE(r.verdict, Verdict::failed) << r.reason;
    if (r.verdict != Verdict::skipped) continue;
    EXPECT_TRUE(r.reason.starts_with("cudnn: ")) << r.reason;
    EXPECT_EQ(r.reason.find('\n'), std::string::npos) << r.reason;
  }
}

/// What runs keeps its contract; where one op runs, all do.
TEST_F(ProgramCudnn, is_within_its_bounds_on_ordinary_inputs) {
  const std::vector<std::pair<std::string, std::string>> suites{{"softmax", softmax},
                                                                {"layer_norm", layer_norm},
                                                                {"rms_norm", rms_norm},
                                                                {"attention", attention}};
  std::set<std::string> run;
  for (const auto& [op, suite] : suites) {
    const std::vector<Record> records = records_of(op, suite);
    ASSERT_FALSE(records.empty()) << op;
    for (const Record& r : records) {
      if (r.verdict == Verdict::skipped) continue;
      EXPECT_EQ(r.verdict, Verdict::within)
          << op << " " << r.precision << " " << r.part << " " << r.reason;
      run.insert(op);
    }
  }
  EXPECT_TRUE(run.empty() || run.size() == suites.size());
}

TEST_F(ProgramCudnn, reads_once_whether_it_has_to_be_deterministic) {
  put("softmax.toml", softmax);
  for (const auto& [value, told] : {std::pair{"on", "true"}, {"off", "false"}}) {
    const std::string file = std::string(value) + ".jsonl";
    const Ran ran =
        shell("OPBOUND_CUDNN_DETERMINISTIC=" + std::string(value) +
              " " OPBOUND_PROGRAM " run softmax.toml --device cuda --provider cudnn --out " + file);
    EXPECT_NE(ran.code, 2) << ran.err;
    const std::vector<Record> records = read_records(path(file));
    ASSERT_FALSE(records.empty());
    const std::pair<std::string, std::string> asked{"cudnn deterministic", told};
    const auto& entries = records.front().environment;
    EXPECT_NE(std::find(entries.begin(), entries.end(), asked), entries.end()) << value;
  }
}

TEST_F(ProgramCudnn, a_setting_that_is_none_is_refused_with_its_name) {
  put("softmax.toml", softmax);
  const Ran ran = shell("OPBOUND_CUDNN_DETERMINISTIC=1 " OPBOUND_PROGRAM
                        " run softmax.toml --device cuda --provider cudnn");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(
      ran.err.find("libopbound_cudnn.so: OPBOUND_CUDNN_DETERMINISTIC is '1', expected on or off\n"),
      std::string::npos)
      << ran.err;
}

/// Ops that it has no kernel for are skipped before it is asked.
TEST_F(ProgramCudnn, lists_its_ops) {
  const std::vector<Record> records =
      records_of("swiglu", "op = \"swiglu\"\n[[case]]\nprecision = \"fp32\"\nshape = [8]\n");
  ASSERT_FALSE(records.empty());
  for (const Record& r : records) {
    EXPECT_EQ(r.verdict, Verdict::skipped);
    EXPECT_TRUE(r.reason.starts_with("cudnn: ") || r.reason.starts_with("cudnn lists no kernel"))
        << r.reason;
  }
}

/// The program alone, without what is built beside it.
class ProgramCudnnAbsent : public Program {};

TEST_F(ProgramCudnnAbsent, skips_every_check) {
  put("softmax.toml", softmax);
  ASSERT_EQ(shell("cp '" OPBOUND_PROGRAM "' alone").code, 0);
  const Ran ran = shell("./alone run softmax.toml --provider cudnn --out r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_FALSE(records.empty());
  for (const Record& r : records) {
    EXPECT_EQ(r.verdict, Verdict::skipped);
    EXPECT_EQ(r.reason, "cudnn: this build has no libopbound_cudnn.so");
  }
  EXPECT_EQ(shell("./alone run softmax.toml --provider cudnn --require cudnn").code, 3);
}

}  // namespace
}  // namespace opbound
