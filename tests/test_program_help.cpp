// What --help prints, and what is said of a command line that is none.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/program.hpp"

namespace opbound {
namespace {

TEST_F(Program, HelpIsWordsInLinesOfEightyColumns) {
  std::vector<std::string> commands{"", "trace show", "trace diff"};
  std::istringstream lines(opbound("--help").out);
  std::string line;
  while (std::getline(lines, line) && line != "Subcommands:") continue;
  while (std::getline(lines, line) && !line.empty())
    if (line[2] != ' ') commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  EXPECT_GE(commands.size(), 20U);
  for (const std::string& command : commands) {
    const Ran help = opbound(command + " --help");
    EXPECT_EQ(help.code, 0) << command;
    std::istringstream all(help.out);
    while (std::getline(all, line)) EXPECT_LE(line.size(), 80U) << command << ": " << line;
    // What the command line's reader calls its own checks and types.
    for (const char* word : {" in [", "INT", "FLOAT", "TEXT:", "POSITIVE", "NONNEG",
                             "Excludes:", "Needs:", "{false}", "REQUIRED"})
      EXPECT_EQ(help.out.find(word), std::string::npos) << command << ": " << word;
  }
  const std::string sentinel = opbound("sentinel --help").out;
  const char* const twins =
      "  --twins N                 How many each reference has, for the limits (2 to\n"
      "                            64; default 3)\n";
  EXPECT_NE(sentinel.find(twins), std::string::npos) << sentinel;
}

TEST_F(Program, WhatAnOptionLacksIsToldWithoutTheReadersTypes) {
  EXPECT_EQ(refusal("train nano.toml --steps"),
            "opbound: command line: --steps: no value, expected the usage that --help prints\n");
  for (const char* words : {"run --probes 0", "sentinel nano.toml --alpha 2"}) {
    const std::string said = refusal(words);
    EXPECT_EQ(said.find("000000"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace opbound
