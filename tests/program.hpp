// The built program as a user runs it: in a folder of its own, with words on a command line.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace opbound {

/// What one call of the program gave.
struct Ran {
  int code = -1;
  std::string out, err;
};

/// Every test has an empty folder, in which the program runs.
class Program : public testing::Test {
 protected:
  Program() {
    std::string pattern = (std::filesystem::temp_directory_path() / "opbound_cli_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string get(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(path(name), std::ios::binary).rdbuf();
    return all.str();
  }

  /// Any command line of the shell.
  Ran shell(const std::string& line) const {
    const int status =
        std::system(("cd '" + folder_ + "' && { " + line + "; } >out.txt 2>err.txt").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, get("out.txt"), get("err.txt")};
  }
  Ran opbound(const std::string& words) const { return shell(OPBOUND_PROGRAM " " + words); }

  /// Exit 2, one line on standard error, nothing on standard output; gives the line.
  std::string refusal(const std::string& words) const {
    const Ran ran = opbound(words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_EQ(ran.out, "") << words;
    EXPECT_TRUE(ran.err.starts_with("opbound: ")) << words << ": " << ran.err;
    EXPECT_EQ(ran.err.find('\n') + 1, ran.err.size()) << words << ": " << ran.err;
    return ran.err;
  }

  std::string folder_;
};

}  // namespace opbound
