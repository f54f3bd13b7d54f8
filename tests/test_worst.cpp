// The worst inputs found so far: our own kernels keep their bounds there, with the very ratios that
// are on record; and the search that finds them.
#include <gtest/gtest.h>

#include <filesystem>

#include "suites/input.hpp"
#include "suites/worst.hpp"
#include "tests/faulty_kernel.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(OPBOUND_SOURCE_DIR) / "suites" / "worst";

std::vector<fs::path> committed() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  return files;
}

TEST(Worst, NoCorrectKernelExceedsItsBound) {
  const std::vector<fs::path> files = committed();
  EXPECT_FALSE(files.empty());  // a new op needs none
  for (const fs::path& file : files)
    for (const WorstCase& c : read_worst_file(file.string())) {
      const WorstRatio now = worst_ratio_of(c.spec, c.inputs);
      EXPECT_FALSE(now.exceeds) << file;
      EXPECT_LE(now.ratio, 1) << file;
      EXPECT_EQ(now.ratio, c.found.ratio) << file << ": another ratio than on record";
      EXPECT_EQ(now.output, c.found.output) << file;
      EXPECT_GE(c.found.ratio, c.before) << file;
    }
}

CaseSpec gelu_case(std::string_view variant, std::string_view precision = "fp32") {
  CaseSpec spec = case_of("gelu", Direction::forward, precision, {16}, {}, variant);
  spec.inputs = {{"x", parse_input("normal")}};
  return spec;
}

TEST(Worst, TheSearchIsAFunctionOfItsSeed) {
  const WorstCase one = search_worst(gelu_case("erfc"), 1, 60);
  const WorstCase again = search_worst(gelu_case("erfc"), 1, 60);
  const WorstCase other = search_worst(gelu_case("erfc"), 2, 60);
  EXPECT_EQ(one.inputs.at("x").values(), again.inputs.at("x").values());
  EXPECT_NE(one.inputs.at("x").values(), other.inputs.at("x").values());
  EXPECT_EQ(one.evaluations, 60U);
  EXPECT_GT(one.found.ratio, one.before);
  EXPECT_LE(one.found.ratio, 1);
}

/// 1 + erf is no erfc form: the search for its largest ratio by that form's bound ends beyond.
TEST(Worst, TheSearchFindsABoundThatIsTooSmall) {
  CaseSpec spec = gelu_case("one_plus_erf");
  spec.declared = {spec.op->variant_named("erfc")};
  const WorstCase found = search_worst(spec, 1, 200);
  EXPECT_TRUE(found.found.exceeds);
  EXPECT_GT(found.found.ratio, 1);
  EXPECT_LT(found.evaluations, 200U) << "it ends where it found one";
}

using WorstFile = TemporaryFolder;

TEST_F(WorstFile, IsReadAsItWasWritten) {
  const WorstCase c = search_worst(gelu_case("erfc"), 1, 8);
  const auto read = read_worst_file(put("gelu.txt", worst_file_text("search_worst gelu", {c})));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].inputs.at("x").values(), c.inputs.at("x").values());
  EXPECT_EQ(read[0].found.ratio, c.found.ratio);
  EXPECT_EQ(worst_ratio_of(read[0].spec, read[0].inputs).ratio, c.found.ratio);
}

TEST_F(WorstFile, RefusesWhatIsNoSuchFile) {
  const std::string text = worst_file_text("x", {search_worst(gelu_case("erfc"), 1, 1)});
  const auto refused = [&](const std::string& name, const std::string& from,
                           const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      read_worst_file(put(name, changed));
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused("gelu.txt", "erfc", "erfx").find("no variant"), std::string::npos);
  EXPECT_NE(refused("gelu.txt", "shape = [16]", "shape = [17]").find("16 values"),
            std::string::npos);
  EXPECT_NE(refused("gelu.txt", "x = [\"", "x = [\"1.5\", \"").find("17 values"),
            std::string::npos);
  EXPECT_NE(refused("gelu.txt", "\nbefore = ", "\nbefor = ").find("befor"), std::string::npos);
  EXPECT_NE(refused("gelu.txt", "\nx = ", "\nz = ").find("no tensor"), std::string::npos);
  EXPECT_NE(refused("geluu.txt", "", "").find("no operator"), std::string::npos);
}

}  // namespace
}  // namespace opbound
