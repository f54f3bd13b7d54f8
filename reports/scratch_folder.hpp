// A folder for temporary files.
#pragma once

#include <filesystem>

namespace opbound {

/// Made where TMPDIR says, else in the system's place; it goes with the object, and all that is in
/// it. Throws InputError where it cannot be made.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace opbound
