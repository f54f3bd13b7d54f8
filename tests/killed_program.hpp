// The built program, killed at moments that a seed draws, and what has to hold of its files then.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "ops/philox.hpp"
#include "tests/program.hpp"

namespace opbound {

using Words = std::vector<std::string>;

class KilledProgram : public Program {
 protected:
  using Clock = std::chrono::steady_clock;

  /// Runs the program to its end; gives the microseconds that it took.
  std::int64_t timed(const Words& words) {
    const auto start = Clock::now();
    const pid_t child = started(words);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << get("err.txt");
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
  }

  /// Runs it and kills it (SIGKILL, which no program can catch) after a time below `longest`
  /// microseconds, draw `place`. False if it had ended before.
  bool killed(const Words& words, std::int64_t longest, std::uint32_t place) {
    const std::uint64_t word = philox({place, 0, 0, 0}, {0x6b696c6c, 0})[0];
    const auto after = static_cast<std::int64_t>(
        word * static_cast<std::uint64_t>(std::max<std::int64_t>(1, longest)) >> 32);
    const pid_t child = started(words);
    std::this_thread::sleep_for(std::chrono::microseconds(after));
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(was_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << get("err.txt");
    return was_killed;
  }

 private:
  pid_t started(const Words& words) {
    const pid_t child = fork();
    if (child != 0) return child;
    std::vector<char*> arguments;
    std::string program = OPBOUND_PROGRAM;
    Words copy = words;
    arguments.push_back(program.data());
    for (std::string& word : copy) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int out = open(path("out.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open(path("err.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (chdir(folder_.c_str()) == 0) execv(program.c_str(), arguments.data());
    _exit(99);
  }
};

/// The lines of a text; the last one, if it has no end, as "torn: ...".
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      lines.push_back("torn: " + text.substr(at));
      break;
    }
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// What is wrong with a file that held `before` and to which a run that may have been killed has
/// appended some of the lines of a `whole` one; empty if nothing is.
inline std::string wrong_of(const std::vector<std::string>& now,
                            const std::vector<std::string>& before,
                            const std::vector<std::string>& whole) {
  for (std::size_t i = 0; i < before.size(); ++i)
    if (i >= now.size() || now[i] != before[i]) return "lost: line " + std::to_string(i + 1);
  for (std::size_t i = before.size(); i < now.size(); ++i) {
    const std::size_t place = i - before.size();
    if (now[i].starts_with("torn: ")) return "torn: line " + std::to_string(i + 1);
    if (place >= whole.size() || now[i] != whole[place])
      return "not what the run says: line " + std::to_string(i + 1);
  }
  return "";
}

}  // namespace opbound
