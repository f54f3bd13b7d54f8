#include "reports/report/pdf.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "reports/error.hpp"
#include "reports/scratch_folder.hpp"

namespace opbound::report {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> browsers{"chromium", "chromium-browser", "google-chrome",
                                              "google-chrome-stable", "chrome"};
constexpr std::chrono::seconds patience{120};

/// The first of the browsers that PATH has.
std::optional<std::string> found_browser() {
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (const char* name : browsers)
    for (std::size_t from = 0; from <= folders.size();) {
      const std::size_t end = std::min(folders.find(':', from), folders.size());
      const std::string file = folders.substr(from, end - from) + "/" + name;
      if (access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file)) return file;
      from = end + 1;
    }
  return std::nullopt;
}

/// Runs a program silently, in a group of its own that ends with it; its exit status, or -1 where
/// it took too long or could not be run.
int run_silently(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it only reads.
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, descriptor, "/dev/null", O_RDWR, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int refused =
      posix_spawn(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (refused != 0) return -1;
  const auto end = std::chrono::steady_clock::now() + patience;
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(-child, SIGKILL);  // what it left behind
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

void write_pdf(const std::string& page, const std::string& path) {
  const std::optional<std::string> browser = found_browser();
  if (!browser)
    throw InputError("--pdf", "no browser that prints",
                     "chromium or google-chrome in PATH; any browser prints the page of --html");
  const ScratchFolder scratch;
  const fs::path html = scratch.path() / "page.html", pdf = scratch.path() / "page.pdf";
  std::ofstream(html, std::ios::binary) << page;
  std::vector<std::string> words{*browser,
                                 "--headless",
                                 "--disable-gpu",
                                 "--no-first-run",
                                 "--no-pdf-header-footer",
                                 "--user-data-dir=" + (scratch.path() / "profile").string(),
                                 "--print-to-pdf=" + pdf.string()};
  if (geteuid() == 0) words.emplace_back("--no-sandbox");  // Chromium refuses root otherwise
  words.push_back("file://" + html.string());
  const int status = run_silently(words);
  std::error_code failed;
  if (status != 0 || !fs::exists(pdf))
    throw InputError("--pdf", *browser + " printed nothing", "a Chromium that runs headless");
  fs::copy_file(pdf, path, fs::copy_options::overwrite_existing, failed);
  if (failed) throw InputError(path, "cannot be written", "a file in a folder that exists");
}

}  // namespace opbound::report
