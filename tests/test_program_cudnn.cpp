// opbound run --provider cudnn: the plug-in of ops/providers/cudnn beside the program, without a
// device and with one, and its absence.
#include <algorithm>
#include <filesystem>

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

class ProgramCudnn : public Program {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(OPBOUND_PROGRAM).parent_path() / "libopbound_cudnn.so"))
      GTEST_SKIP() << "built without cuDNN's headers or its frontend's";
  }

  std::vector<Record> records_of(const std::string& op, const std::string& suite) {
    put(op + ".toml", suite);
    const Ran ran = opbound("run " + op + ".toml --device cuda --provider cudnn --out r.jsonl");
    EXPECT_TRUE(ran.code == 0 || ran.code == 1) << ran.err;
    return read_records(path("r.jsonl"));
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
  for (const Record& r : records_of("softmax", softmax)) {
    EXPECT_NE(r.verdict, Verdict::failed) << r.reason;
    if (r.verdict != Verdict::skipped) continue;
    EXPECT_TRUE(r.reason.starts_with("cudnn: ")) << r.reason;
    EXPECT_EQ(r.reason.find('\n'), std::string::npos) << r.reason;
  }
}

TEST_F(ProgramCudnn, reads_once_whether_it_has_to_be_deterministic) {
  put("softmax.toml", softmax);
  const Ran ran = shell("OPBOUND_CUDNN_DETERMINISTIC=1 " OPBOUND_PROGRAM
                        " run softmax.toml --device cuda --provider cudnn --out r.jsonl");
  EXPECT_NE(ran.code, 2) << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_FALSE(records.empty());
  const std::pair<std::string, std::string> asked{"cudnn deterministic", "true"};
  const auto& entries = records.front().environment;
  EXPECT_NE(std::find(entries.begin(), entries.end(), asked), entries.end());
}

/// Ops that it has no kernel for are skipped before it is asked.
TEST_F(ProgramCudnn, lists_its_ops) {
  for (const Record& r : records_of("swiglu",
                                    "op = \"swiglu\"\n[[case]]\nprecision = \"fp32\"\n"
                                    "shape = [8]\n")) {
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
  for (const Record& r : read_records(path("r.jsonl"))) {
    EXPECT_EQ(r.verdict, Verdict::skipped);
    EXPECT_EQ(r.reason, "cudnn: this build has no libopbound_cudnn.so");
  }
  EXPECT_EQ(shell("./alone run softmax.toml --provider cudnn --require cudnn").code, 3);
}

}  // namespace
}  // namespace opbound
