#include "distributed/trace/nearest_checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "distributed/train/checkpoint.hpp"
#include "reports/error.hpp"
#include "reports/scratch_folder.hpp"

namespace opbound::trace {
namespace {

namespace fs = std::filesystem;

/// Of what a trainer writes, step-000000000120.safetensors; by steps done.
std::map<std::int64_t, fs::path, std::greater<>> files_of(const fs::path& folder) {
  std::map<std::int64_t, fs::path, std::greater<>> files;
  std::error_code failed;
  fs::directory_iterator all(folder, failed);
  if (failed) throw InputError(folder.string(), failed.message(), "a folder of checkpoints");
  for (const fs::directory_entry& entry : all) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view before = "step-", after = ".safetensors";
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    std::int64_t steps = -1;
    const char* const end = name.data() + name.size() - after.size();
    const auto [stop, error] = std::from_chars(name.data() + before.size(), end, steps);
    if (error == std::errc{} && stop == end && steps >= 0) files[steps] = entry.path();
  }
  return files;
}

}  // namespace

bool resume_before(train::Trainer& trainer, const fs::path& folder, std::int64_t steps,
                   const std::function<void(const std::string&)>& on_note) {
  for (const auto& [done, file] : files_of(folder)) {
    if (done > steps) continue;
    try {
      train::read_checkpoint(file);
    } catch (const InputError& e) {
      if (on_note) on_note(e.what());
      continue;
    }
    // A trainer resumes from the newest of a folder, so this one stands alone in another.
    const ScratchFolder alone;
    fs::create_symlink(fs::absolute(file), alone.path() / file.filename());
    try {
      return trainer.resume(alone.path(), on_note);
    } catch (const InputError& e) {
      std::string text = e.what();
      if (const auto at = text.find(alone.path().string()); at != std::string::npos)
        text.replace(at, alone.path().string().size(), folder.string());
      throw InputError(text);
    }
  }
  return false;
}

}  // namespace opbound::trace
