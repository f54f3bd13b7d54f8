// opbound run --provider cublas: the plug-in of ops/providers/cublas beside the program. Where
// there is no GPU it opens, says what it is and why nothing runs.
#include <algorithm>
#include <filesystem>

#include "ops/matmul.hpp"
#include "ops/providers/cublas/units.hpp"
#include "ops/providers/plugin.hpp"
#include "reports/history.hpp"
#include "suites/foreign.hpp"
#include "suites/rerun.hpp"
#include "tests/faulty_kernel.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

std::string plugin_file() {
  return (fs::path(OPBOUND_PROGRAM).parent_path() / "libopbound_cublas.so").string();
}

class ProgramCublas : public Program {
 protected:
  void SetUp() override {
    if (!fs::exists(plugin_file())) GTEST_SKIP() << "built without cuBLAS";
    put("matmul.toml", R"toml(op = "matmul"
[[case]]
direction = ["forward", "backward_local"]
precision = ["fp64", "fp32", "bf16:fp32:bf16"]
shape = [[16, 24, 32], [5, 7, 33]]
input = {a = ["normal", "normal @transposed"], b = "normal", dd = "normal"}
)toml");
  }

  static std::vector<std::string> declared(const Provider& cublas, const std::string& precision,
                                           const std::string& variant) {
    const CaseSpec spec =
        case_of("matmul", Direction::forward, precision, {2, 2, 2}, {}, variant.c_str());
    const std::vector<CaseSpec> taken = cases_for(cublas, {spec});
    std::vector<std::string> names;
    for (const int v : taken.at(0).declared)
      names.emplace_back(spec.op->variants[static_cast<std::size_t>(v)].name);
    return names;
  }
};

TEST_F(ProgramCublas, keeps_its_contract_or_says_that_there_is_no_device) {
  const Ran ran = opbound("run matmul.toml --provider cublas --out r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_FALSE(records.empty());
  for (const Record& r : records) {
    EXPECT_TRUE(r.verdict == Verdict::within || r.verdict == Verdict::skipped) << r.reason;
    EXPECT_TRUE(r.verdict == Verdict::within || r.reason.starts_with("cublas: ")) << r.reason;
    EXPECT_EQ(r.provider, "cublas");
    EXPECT_EQ(std::count(r.provider_version.begin(), r.provider_version.end(), '.'), 2);
    for (const auto& entry : {std::pair<std::string, std::string>{"plugin", "cublas"},
                              {"cublas tf32", "off"},
                              {"cublas reduced", "off"},
                              {"cublas workspace", "33554432 bytes"},
                              {"cublas candidate", "0"}})
      EXPECT_NE(std::find(r.environment.begin(), r.environment.end(), entry), r.environment.end())
          << entry.first;
  }
}

/// bf16 may be added by a matrix unit or not; fp32 by none unless the case is about one.
TEST_F(ProgramCublas, declares_matrix_units_where_they_are) {
  const auto cublas = plugin_provider(plugin_file(), {});
  const std::vector<std::string> alone{"sequential"};
  EXPECT_EQ(declared(*cublas, "fp64", "sequential"), alone);
  EXPECT_EQ(declared(*cublas, "fp32", "sequential"), alone);
  EXPECT_EQ(declared(*cublas, "fp16", "sequential"), alone);
  if (!cublas->absence().empty()) {  // without a device: Hopper's
    const std::vector<std::string> unit{"hopper"}, either{"sequential", "hopper"};
    EXPECT_EQ(declared(*cublas, "fp32", "hopper"), unit);
    EXPECT_EQ(declared(*cublas, "bf16:fp32:bf16", "hopper"), unit);
    EXPECT_EQ(declared(*cublas, "bf16:fp32:bf16", "sequential"), either);
    EXPECT_EQ(declared(*cublas, "e4m3:fp32:bf16", "sequential"), either);
    EXPECT_EQ(declared(*cublas, "tf32:fp32:fp32", "sequential"), either);
  }
}

/// The plug-in is built without opbound's ops, and lists their matrix units itself; hopper_mma is
/// no unit of its own but one of Hopper's ways, which the bound of `hopper` covers.
TEST(CublasUnits, are_those_of_matmul) {
  for (std::size_t v = 0; v < matmul::variants.size(); ++v)
    EXPECT_EQ(with_cublas::is_unit(matmul::variants[v].name),
              v >= matmul::volta && v != matmul::hopper_mma)
        << matmul::variants[v].name;
}

TEST_F(ProgramCublas, a_setting_that_is_none_is_refused_with_its_name) {
  for (const auto& [setting, line] : std::vector<std::pair<std::string, std::string>>{
           {"OPBOUND_CUBLAS_TF32=yes", "OPBOUND_CUBLAS_TF32 is 'yes', expected on or off"},
           {"OPBOUND_CUBLAS_REDUCED=1", "OPBOUND_CUBLAS_REDUCED is '1', expected on or off"},
           {"OPBOUND_CUBLAS_WORKSPACE_BYTES=32MiB",
            "OPBOUND_CUBLAS_WORKSPACE_BYTES is '32MiB', expected a whole number"},
           {"OPBOUND_CUBLAS_CANDIDATE=5",
            "OPBOUND_CUBLAS_CANDIDATE is '5', expected a whole number from 0 to 4"}}) {
    const Ran ran = shell(setting + " " OPBOUND_PROGRAM " run matmul.toml --provider cublas");
    EXPECT_EQ(ran.code, 2) << setting;
    EXPECT_EQ(ran.out, "") << setting;
    EXPECT_NE(ran.err.find("libopbound_cublas.so: " + line), std::string::npos) << ran.err;
  }
}

TEST_F(ProgramCublas, records_the_settings) {
  const Ran ran =
      shell("OPBOUND_CUBLAS_REDUCED=on OPBOUND_CUBLAS_WORKSPACE_BYTES=0 " OPBOUND_PROGRAM
            " run matmul.toml --provider cublas --out r.jsonl");
  EXPECT_NE(ran.code, 2) << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_FALSE(records.empty());
  for (const Record& r : records)
    for (const auto& entry : {std::pair<std::string, std::string>{"cublas reduced", "on"},
                              {"cublas workspace", "0 bytes"}})
      EXPECT_NE(std::find(r.environment.begin(), r.environment.end(), entry), r.environment.end())
          << entry.first;
}

}  // namespace
}  // namespace opbound
