// opbound run --provider fast: the plug-in of ops/providers/fast beside the program. Where there is
// no GPU it opens, says what it is and why nothing runs.
#include <algorithm>
#include <filesystem>
#include <set>

#include "ops/providers/plugin.hpp"
#include "reports/history.hpp"
#include "suites/foreign.hpp"
#include "tests/faulty_kernel.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

std::string plugin_file() {
  return (fs::path(OPBOUND_PROGRAM).parent_path() / "libopbound_fast.so").string();
}

class ProgramFast : public Program {
 protected:
  void SetUp() override {
    if (!fs::exists(plugin_file())) GTEST_SKIP() << "built without nvcc or CCCL";
  }
};

/// Rows in registers and rows of odd lengths, packs and what is left of them, gradients too.
TEST_F(ProgramFast, keeps_its_contract_or_says_that_there_is_no_device) {
  put("layer_norm.toml", R"toml(op = "layer_norm"
[[case]]
direction = ["forward", "backward_local"]
precision = ["fp32", "bf16:fp32:bf16", "fp16:fp32:fp16"]
variant = "two_pass"
shape = [[5, 768], [3, 1024], [3, 100], [2, 33]]
input = {x = "normal", gamma = "normal(mean=1)", beta = "normal", dy = "normal"}
)toml");
  put("gelu.toml", R"toml(op = "gelu"
[[case]]
direction = ["forward", "backward_local"]
precision = ["fp32", "bf16:fp32:bf16", "fp16:fp32:fp16"]
variant = "erfc"
shape = [[1], [8], [1003]]
input = {x = "normal", dy = "normal"}
)toml");
  for (const char* suite : {"layer_norm", "gelu"}) {
    const std::string file = std::string(suite) + ".jsonl";
    const Ran ran =
        opbound("run " + std::string(suite) + ".toml --device cuda --provider fast --out " + file);
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    const std::vector<Record> records = read_records(path(file));
    ASSERT_FALSE(records.empty());
    for (const Record& r : records) {
      EXPECT_TRUE(r.verdict == Verdict::within || r.verdict == Verdict::skipped) << r.reason;
      EXPECT_TRUE(r.verdict == Verdict::within || r.reason.starts_with("fast: ")) << r.reason;
      EXPECT_EQ(r.provider, "fast");
    }
  }
}

/// Each of its kernels is declared as one algorithm, by whose bound it is judged.
TEST_F(ProgramFast, declares_one_variant_of_each_op) {
  const auto fast = plugin_provider(plugin_file(), {});
  for (const auto& [op, variant] :
       std::vector<std::pair<const char*, const char*>>{{"cast", "nearest"},
                                                        {"residual", "product_and_sum"},
                                                        {"gelu", "erfc"},
                                                        {"layer_norm", "two_pass"},
                                                        {"cross_entropy", "log_of_sum"},
                                                        {"embedding", "gather"},
                                                        {"global_norm", "scaled"},
                                                        {"clip", "division"},
                                                        {"adamw", "scaled_step"}}) {
    const Op& found = *find_op(op);
    const int own = found.variant_named(variant);
    const auto declared = [&](int asked) {
      return fast->variants(found, Direction::forward, found.default_attributes, asked);
    };
    EXPECT_EQ(declared(own), std::vector<int>{own}) << op;
    for (int v = 0; v < static_cast<int>(found.variants.size()); ++v)
      EXPECT_EQ(declared(v).empty(), v != own) << op << " " << v;
  }
  EXPECT_TRUE(fast->variants(*find_op("matmul"), Direction::forward,
                             find_op("matmul")->default_attributes, 0)
                  .empty());
}

}  // namespace
}  // namespace opbound
