// tools/Dockerfile cannot be built in every place that builds opbound; what its text promises can
// be checked everywhere, and by hadolint where that is installed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Lines = std::vector<std::string>;

/// A file's instructions, one a line, without comments.
Lines instructions(std::istream& file) {
  Lines all;
  bool goes_on = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const bool is_open = line.back() == '\\';
    if (is_open) line.pop_back();
    if (goes_on)
      all.back() += line;
    else
      all.push_back(line);
    goes_on = is_open;
  }
  return all;
}

/// One line for everything that a container of ours must not have; `targets`: the stages that are
/// run, not only built with.
Lines container_mistakes(std::istream& file, const Lines& targets) {
  Lines wrong;
  std::map<std::string, std::string> users;  // by stage; inherited
  std::string stage;
  std::smatch part;
  static const std::regex from(R"(FROM (\S+) AS (\S+))"), user(R"(USER (\S+))");
  static const std::regex pinned(R"([a-z0-9./-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64})");
  static const std::regex fetched(R"(ADD |https?://|curl |wget |apt-get |pip install)");
  for (const std::string& line : instructions(file)) {
    if (line.starts_with("FROM ") && !std::regex_match(line, part, from)) {
      wrong.push_back("a stage without a name: " + line);
    } else if (std::regex_match(line, part, from)) {
      stage = part[2];
      const auto base = users.find(part[1]);
      if (base == users.end() && !std::regex_match(part[1].str(), pinned))
        wrong.push_back("not pinned by tag and digest: " + line);
      users[stage] = base == users.end() ? "root" : base->second;
    } else if (std::regex_match(line, part, user)) {
      users[stage] = part[1];
    }
    if (std::regex_search(line, fetched)) wrong.push_back("fetched past tools/setup: " + line);
  }
  static const std::regex by_number(R"([1-9][0-9]*:[1-9][0-9]*)");  // a policy can check a number
  for (const std::string& target : targets)
    if (!std::regex_match(users[target], by_number))
      wrong.push_back("the stage " + target + " runs as '" + users[target] + "'");
  return wrong;
}

Lines mistakes_of(const std::string& text) {
  std::istringstream file(text);
  return container_mistakes(file, {"run"});
}

const std::string path = OPBOUND_SOURCE_DIR "/tools/Dockerfile";

TEST(Container, IsPinnedAndRunsAsNobody) {
  std::ifstream file(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(container_mistakes(file, {"cpu", "cuda"}), Lines());
}

TEST(Container, SatisfiesHadolint) {
  if (std::system("hadolint --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no hadolint here";
  EXPECT_EQ(std::system(("hadolint '" + path + "'").c_str()), 0);
}

TEST(Container, WhatIsPlantedIsFound) {
  const std::string base = "FROM a/b:1.2@sha256:" + std::string(64, 'a') + " AS base\n";
  const std::string run = "FROM base AS run\n", user = "USER 10:10\n";
  EXPECT_EQ(mistakes_of(base + "# curl\n" + run + user + "RUN a \\\n  && b\n"), Lines());
  EXPECT_EQ(mistakes_of(base + user + run), Lines());  // inherited
  for (const std::string& wrong :
       {base + run, base + run + "USER root\n", base + run + "USER 0:0\n",
        "FROM debian:latest AS run\n" + user, "FROM debian@sha256:ab AS run\n" + user,
        base + "FROM base\n" + run + user, base + run + user + "ADD a b\n",
        base + run + user + "RUN a \\\n  && curl -O b\n",
        base + run + user + "RUN apt-get update\n"})
    EXPECT_EQ(mistakes_of(wrong).size(), 1U) << wrong;
}

}  // namespace
