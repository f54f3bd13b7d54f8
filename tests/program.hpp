// The built program as a user runs it: in a folder of its own, with words on a command line.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/temporary_folder.hpp"

namespace opbound {

/// What one call of the program gave.
struct Ran {
  int code = -1;
  std::string out, err;
};

/// Every test has an empty folder, in which the program runs.
class Program : public TemporaryFolder {
 protected:
  /// Any command line of the shell. Tables are as wide as they need, wherever the test runs.
  Ran shell(const std::string& line) const {
    const int status = std::system(
        ("unset COLUMNS; cd '" + folder_.string() + "' && { " + line + "; } >out.txt 2>err.txt")
            .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, get("out.txt"), get("err.txt")};
  }
  /// No words of a user end the program by a signal.
  Ran opbound(const std::string& words) const {
    Ran ran = shell(OPBOUND_PROGRAM " " + words);
    EXPECT_LT(ran.code, 128) << words << ": " << ran.err;
    return ran;
  }

  /// Exit 2, one line on standard error, nothing on standard output; gives the line.
  std::string refusal(const std::string& words) const {
    const Ran ran = opbound(words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_EQ(ran.out, "") << words;
    EXPECT_TRUE(ran.err.starts_with("opbound: ")) << words << ": " << ran.err;
    EXPECT_EQ(ran.err.find('\n') + 1, ran.err.size()) << words << ": " << ran.err;
    return ran.err;
  }
};

}  // namespace opbound
