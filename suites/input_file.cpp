#include "suites/input_file.hpp"

#include <unistd.h>

#include <ios>
#include <system_error>

namespace opbound {

namespace fs = std::filesystem;

InputFile::InputFile(const fs::path& path) : name_(path.string()) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse("no such file", "a file that exists");
  if (fs::is_directory(status)) refuse("is a directory", "a file");
  if (!fs::is_regular_file(status)) refuse("is not a regular file", "a file on disk");
  size_ = fs::file_size(path, error);
  stream_.open(path, std::ios::binary);
  if (error || !stream_) refuse("cannot be opened", "a file that may be read");
}

void InputFile::require_bytes(std::uint64_t offset, std::uint64_t count) const {
  if (offset <= size_ && count <= size_ - offset) return;
  refuse("ends at byte " + std::to_string(size_),
         std::to_string(count) + " bytes from byte " + std::to_string(offset) + " on");
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) {
  require_bytes(offset, bytes.size());
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(offset));
  stream_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream_) refuse("cannot be read to its end", "a file that does not change");
}

std::string InputFile::text(std::uint64_t offset, std::uint64_t count) {
  require_bytes(offset, count);
  std::string bytes(count, '\0');
  read(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void write_atomically(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  fs::path temporary = path;
  temporary += ".partial-" + std::to_string(::getpid());
  std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
  for (const std::span<const std::byte> part : parts)
    stream.write(reinterpret_cast<const char*>(part.data()),
                 static_cast<std::streamsize>(part.size()));
  stream.close();
  std::error_code error;
  if (stream) fs::rename(temporary, path, error);
  if (stream && !error) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw InputError(path.string(), "cannot be written", "a folder with room that may be written");
}

}  // namespace opbound
