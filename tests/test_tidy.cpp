// The rules that keep the tree readable, checked on every file that git knows or would add.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path root = OPBOUND_SOURCE_DIR;

struct File {
  std::string path;  // relative to the root
  std::vector<std::string> lines;
};

/// The paths that `git ls-files` prints, without files that were deleted; empty outside of git.
std::vector<std::string> listed_by_git() {
  const std::string command =
      "git -C '" + root.string() + "' ls-files --cached --others --exclude-standard 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> chunk{};
  while (const std::size_t n = std::fread(chunk.data(), 1, chunk.size(), pipe.get())) {
    text.append(chunk.data(), n);
  }
  std::vector<std::string> paths;
  std::istringstream stream(text);
  for (std::string path; std::getline(stream, path);) {
    if (fs::is_regular_file(root / path)) paths.push_back(path);
  }
  return paths;
}

/// Files written by hand as code; not prose, data, records or inputs.
bool is_source(const std::string& path) {
  static const std::regex code(R"((.*\.(cpp|hpp|cu|c|h|in|py|cmake))|(.*CMakeLists\.txt))");
  static const std::regex script(R"(\.ci/run|tools/[a-z_]+)");
  return std::regex_match(path, code) || std::regex_match(path, script);
}

const std::vector<File>& sources() {
  static const std::vector<File> files = [] {
    std::vector<File> result;
    for (const std::string& path : listed_by_git()) {
      if (!is_source(path)) continue;
      File& file = result.emplace_back(File{path, {}});
      std::ifstream stream(root / path);
      for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
    }
    return result;
  }();
  return files;
}

/// Characters of a UTF-8 line: the bytes that do not continue one.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// "path:line" of every line for which the rule is broken, one a line.
std::string lines_where(const std::function<bool(const File&, const std::string&)>& broken) {
  std::string result;
  for (const File& file : sources()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (broken(file, file.lines[i])) {
        result += file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i] + "\n";
      }
    }
  }
  return result;
}

std::string lines_with(const std::regex& pattern) {
  return lines_where(
      [&](const File&, const std::string& line) { return std::regex_search(line, pattern); });
}

class Tidy : public testing::Test {
 protected:
  void SetUp() override {
    if (sources().empty()) GTEST_SKIP() << "not a git checkout";
  }
};

TEST_F(Tidy, files_have_at_most_400_lines) {
  for (const File& file : sources()) EXPECT_LE(file.lines.size(), 400U) << file.path;
}

TEST_F(Tidy, lines_have_at_most_100_columns) {
  EXPECT_EQ(lines_where([](const File&, const std::string& line) { return columns(line) > 100; }),
            "");
}

TEST_F(Tidy, lines_end_without_blanks_or_tabs) { EXPECT_EQ(lines_with(std::regex("[ \t]$")), ""); }

TEST_F(Tidy, nothing_is_left_undone) {
  EXPECT_EQ(lines_with(std::regex("\\b(TO"
                                  "DO|FIX"
                                  "ME|XX"
                                  "X)\\b")),
            "");
}

// A bound is derived or recorded, never typed in: a test compares with it or with exact bits.
TEST_F(Tidy, tests_have_no_tolerances) {
  EXPECT_EQ(lines_with(std::regex("(EXPECT|ASSERT)_(NE"
                                  "AR|FLOAT_EQ|DOUBLE_EQ)")),
            "");
}

TEST_F(Tidy, no_path_of_a_machine) {
  EXPECT_EQ(lines_with(std::regex("[^a-z$}.]/(home|root|Users|work)/[A-Za-z]")), "");
}

TEST_F(Tidy, headers_are_included_once) {
  for (const File& file : sources()) {
    if (!file.path.ends_with(".hpp")) continue;
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end())
        << file.path;
  }
}

// An op is its header, or the headers of its folder, its suite and its planted faults, each under
// the op's name.
TEST_F(Tidy, every_op_has_a_suite_and_faults) {
  static const std::regex definition(R"(\bstatic void define\()");
  std::set<std::string> names;
  for (const File& file : sources()) {
    if (!file.path.starts_with("ops/") || !file.path.ends_with(".hpp")) continue;
    const bool is_op =
        std::any_of(file.lines.begin(), file.lines.end(),
                    [](const std::string& line) { return std::regex_search(line, definition); });
    if (is_op) names.insert(std::next(fs::path(file.path).begin())->stem());
  }
  EXPECT_GT(names.size(), 20U);
  for (const std::string& name : names) {
    EXPECT_TRUE(fs::exists(root / "suites" / (name + ".toml"))) << name << " has no suite";
    EXPECT_TRUE(fs::exists(root / "tests/faults" / (name + ".hpp"))) << name << " has no faults";
  }
}

TEST_F(Tidy, the_top_level_is_fixed) {
  static const std::vector<std::string> allowed{".ci",
                                                ".clang-format",
                                                ".clang-tidy",
                                                ".gitignore",
                                                "CHANGELOG.md",
                                                "CMakeLists.txt",
                                                "CMakePresets.json",
                                                "CONTRIBUTING.md",
                                                "DECISIONS.md",
                                                "LICENSE",
                                                "README.md",
                                                "bounds",
                                                "distributed",
                                                "ops",
                                                "reference",
                                                "reports",
                                                "suites",
                                                "tests",
                                                "tools"};
  for (const std::string& path : listed_by_git()) {
    const std::string entry = *fs::path(path).begin();
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), entry), allowed.end()) << path;
  }
}

}  // namespace
