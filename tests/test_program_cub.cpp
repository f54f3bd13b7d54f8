// opbound run --provider cub: the plug-in of ops/providers/cub beside the program. Where there is
// no GPU it opens, says what it is and why nothing runs.
#include <algorithm>
#include <filesystem>

#include "ops/providers/plugin.hpp"
#include "reports/history.hpp"
#include "suites/foreign.hpp"
#include "tests/faulty_kernel.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

std::string plugin_file() {
  return (fs::path(OPBOUND_PROGRAM).parent_path() / "libopbound_cub.so").string();
}

class ProgramCub : public Program {
 protected:
  void SetUp() override {
    if (!fs::exists(plugin_file())) GTEST_SKIP() << "built without nvcc or CCCL";
    put("segmented_sum.toml", R"toml(op = "segmented_sum"
[[case]]
direction = ["forward", "backward_local"]
precision = ["fp64", "fp32", "fp32:fp32:bf16", "bf16:fp32:bf16", "bf16", "fp16"]
attributes = {by = ["ids", "offsets"]}
shape = [[30, 1, 4, 5], [100, 3, 9, 10]]
input = {x = "normal", ids = "index(ignored=0.1)", offsets = "index"}
)toml");
  }
};

TEST_F(ProgramCub, keeps_its_contract_or_says_that_there_is_no_device) {
  const Ran ran = opbound("run segmented_sum.toml --device cuda --provider cub --out r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_FALSE(records.empty());
  for (const Record& r : records) {
    EXPECT_TRUE(r.verdict == Verdict::within || r.verdict == Verdict::skipped) << r.reason;
    EXPECT_TRUE(r.verdict == Verdict::within || r.reason.starts_with("cub: ")) << r.reason;
    EXPECT_EQ(r.provider, "cub");
    EXPECT_EQ(std::count(r.provider_version.begin(), r.provider_version.end(), '.'), 2);
    for (const char* name : {"plugin", "cub cccl", "cub cudart"})
      EXPECT_TRUE(std::any_of(r.environment.begin(), r.environment.end(), [&](const auto& e) {
        return e.first == name && !e.second.empty();
      })) << name;
  }
}

/// Whatever the algorithm of ours whose turn it is, it is one that the attributes allow.
TEST_F(ProgramCub, declares_a_sum_of_any_order) {
  const auto cub = plugin_provider(plugin_file(), {});
  for (const char* by : {"ids", "offsets"}) {
    const CaseSpec spec = case_of("segmented_sum", Direction::forward, "fp32", {8, 2, 3, 4},
                                  {{"by", std::string(by)}});
    const std::vector<CaseSpec> taken = cases_for(*cub, {spec});
    ASSERT_EQ(taken.size(), 1U) << by;
    EXPECT_EQ(taken[0].declared.size(), by == std::string("ids") ? 1U : 2U) << by;
  }
}

}  // namespace
}  // namespace opbound
