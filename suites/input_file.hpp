// Reading files that may be hostile, and writing files that are never seen half done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "reports/error.hpp"

namespace opbound {

/// A regular file whose every read is compared with its size before memory is allocated.
class InputFile {
 public:
  /// InputError unless the path names a regular file that can be read.
  explicit InputFile(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }

  /// Bytes [offset, offset + count); InputError if the file ends before.
  std::string text(std::uint64_t offset, std::uint64_t count);
  void read(std::uint64_t offset, std::span<std::byte> bytes);

  [[noreturn]] void refuse(std::string_view what, std::string_view expected) const {
    throw InputError(name_, what, expected);
  }

 private:
  void require_bytes(std::uint64_t offset, std::uint64_t count) const;

  std::string name_;
  std::uint64_t size_ = 0;
  std::ifstream stream_;
};

/// Writes the parts one after the other to a temporary file beside `path` and renames it: a reader
/// sees the old file or the whole new one. InputError if the file cannot be written.
void write_atomically(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);

}  // namespace opbound
