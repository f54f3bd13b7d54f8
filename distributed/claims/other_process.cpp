#include "distributed/claims/other_process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "distributed/claims/training_lab.hpp"
#include "distributed/train/log.hpp"
#include "ops/provider.hpp"

namespace opbound::claims {
namespace {

/// In the child: never returns.
[[noreturn]] void become(const std::string& program, const std::vector<std::string>& words,
                         const Environment& environment, int out) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> own{program};
  own.insert(own.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : own) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  dup2(out, STDOUT_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDERR_FILENO);
  execv(program.c_str(), arguments.data());
  _exit(127);
}

}  // namespace

std::string output_of(const std::string& program, const std::vector<std::string>& words,
                      const Environment& environment) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw ProviderFailure("no pipe for another process");
  const pid_t child = fork();
  if (child < 0) throw ProviderFailure("no other process could be started");
  if (child == 0) become(program, words, environment, ends[1]);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t n = read(ends[0], chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ProviderFailure("'" + program + " " + (words.empty() ? "" : words.front()) +
                          "' did not end well in another process");
  return text;
}

std::string hash_of_training(const std::string& variation, std::int64_t steps,
                             const std::string& device) {
  Laboratory laboratory;
  laboratory.device = device;
  return train::text_of_hash(trajectory(laboratory, variation, steps).hash);
}

std::string training_hash(const std::string& variation, std::int64_t steps,
                          const std::string& device, const Environment& environment) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed || self.filename() != "opbound")
    throw Unavailable("only the program opbound starts itself again");
  std::string text = output_of(
      self.string(),
      {"claims", "--train", variation, "--steps", std::to_string(steps), "--device", device},
      environment);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace opbound::claims
