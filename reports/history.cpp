#include "reports/history.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "reports/error.hpp"
#include "reports/record_kind.hpp"
#include "reports/record_lines.hpp"

namespace opbound {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw InputError(path, what + ": " + std::strerror(errno));
}

/// Length of the file up to and with its last newline.
off_t end_of_whole_lines(int descriptor, off_t size) {
  std::array<char, 4096> bytes{};
  while (size > 0) {
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(bytes.size()));
    const ssize_t n = pread(descriptor, bytes.data(), static_cast<std::size_t>(size - from), from);
    if (n <= 0) return size;
    const std::string_view text(bytes.data(), static_cast<std::size_t>(n));
    if (const auto newline = text.rfind('\n'); newline != std::string_view::npos)
      return from + static_cast<off_t>(newline) + 1;
    size = from;
  }
  return 0;
}

}  // namespace

std::vector<Record> read_records(const std::string& path) {
  std::vector<Record> records;
  for_each_line(path, [&](std::string_view text, long line) {
    if (line == 1) refuse_other_lines(text, path);
    records.push_back(from_json(text, path, line));
  });
  return records;
}

RecordWriter::RecordWriter(std::string path, std::string line_start)
    : path_(std::move(path)), line_start_(std::move(line_start)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {  // a file that may be written and not read
    const int why = errno;
    descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (descriptor_ < 0 && errno == ENOENT) errno = why;  // it was to be made
  }
  if (descriptor_ < 0) refuse(path_, "records cannot be written");
  try {
    struct stat status {};
    regular_ = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular_) return;
    // Without the lock another run's line in flight would look torn.
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw InputError(path_, "another run is writing its records here", "a file of its own");
    mend_end();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

RecordWriter::~RecordWriter() {
  if (descriptor_ < 0) return;
  if (regular_) fsync(descriptor_);
  ::close(descriptor_);
}

/// Is what stands there the begin of a line, or what is left of one?
bool RecordWriter::could_start_a_line(off_t offset) const {
  std::string bytes(line_start_.size(), '\0');
  const ssize_t n = pread(descriptor_, bytes.data(), bytes.size(), offset);
  return line_start_.starts_with(
      std::string_view(bytes).substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0))));
}

void RecordWriter::mend_end() const {
  const off_t size = lseek(descriptor_, 0, SEEK_END);
  const off_t whole = end_of_whole_lines(descriptor_, size);
  if (!could_start_a_line(0) || !could_start_a_line(whole))
    throw InputError(path_, "holds something else than records", "a new file, or one of records");
  if (whole < size && ftruncate(descriptor_, whole) != 0)
    refuse(path_, "its torn last line cannot be removed");
}

void RecordWriter::write(const Record& record) { write_line(to_json(record)); }

void RecordWriter::write_line(const std::string& json) {
  const std::string line = json + "\n";
  const off_t before = regular_ ? lseek(descriptor_, 0, SEEK_END) : 0;
  ssize_t written = 0;
  do written = ::write(descriptor_, line.data(), line.size());
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return;
  errno = written < 0 ? errno : ENOSPC;  // a short write gives no reason; this is the usual one
  const int reason = errno;
  const bool torn = written > 0 && regular_ && ftruncate(descriptor_, before) != 0;
  errno = reason;
  refuse(path_, torn ? "a record was written in part" : "a record cannot be written");
}

void RecordWriter::close() {
  if (descriptor_ < 0) return;
  const bool kept = !regular_ || fsync(descriptor_) == 0;
  const int reason = errno;
  const bool closed = ::close(descriptor_) == 0;
  descriptor_ = -1;
  if (!kept) errno = reason;
  if (!kept || !closed) refuse(path_, "records did not reach the disk");
}

}  // namespace opbound
