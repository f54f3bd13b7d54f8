// A new op is three files: added to a copy of the tree, it is built, listed, run, tested, and
// nothing else changes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path source = OPBOUND_SOURCE_DIR;

/// Runs a command with its output in `log`; its exit code.
int shell(const std::string& command, const fs::path& log) {
  return std::system((command + " >'" + log.string() + "' 2>&1").c_str());
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class FullNewOp : public opbound::TemporaryFolder {
 protected:
  void SetUp() override {
    for (const char* part : {"CMakeLists.txt", "ops", "bounds", "reference", "suites", "reports",
                             "tools", "distributed", "tests"})
      if (fs::exists(source / part))
        fs::copy(source / part, folder_ / part, fs::copy_options::recursive);
    for (const auto& entry :
         fs::directory_iterator(folder_ / "tests"))  // one test program is enough
      if (entry.path().filename().string().starts_with("test_") &&
          entry.path().filename() != "test_ops.cpp")
        fs::remove(entry.path());
    fs::copy(source / "tests/demo/square.hpp", folder_ / "ops/square.hpp");
    fs::copy(source / "tests/demo/square.toml", folder_ / "suites/square.toml");
    fs::copy(source / "tests/demo/square_faults.hpp", folder_ / "tests/faults/square.hpp");
  }

  int in_tree(const std::string& command) {
    return shell("cd '" + folder_.string() + "' && " + command, folder_ / "log");
  }
  std::string log() const { return text_of(folder_ / "log"); }
};

TEST_F(FullNewOp, ThreeFilesAreEnough) {
  ASSERT_EQ(in_tree("cmake -S . -B build -DOPBOUND_CUDA=OFF && cmake --build build -j 2"), 0)
      << log();
  ASSERT_EQ(in_tree("build/opbound list ops"), 0);
  EXPECT_NE(log().find("square"), std::string::npos) << log();
  EXPECT_EQ(in_tree("build/opbound run suites/square.toml"), 0) << log();
  EXPECT_EQ(in_tree("build/tests/test_ops --gtest_filter='op.square.*-*sharp'"), 0) << log();
  EXPECT_NE(log().find("op.square.fault_in_bf16"), std::string::npos) << log();
}

}  // namespace
