#include "reports/record_lines.hpp"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "reports/error.hpp"

namespace opbound {
namespace {

constexpr std::size_t longest = 1 << 20;  // far above any record; bounds memory

[[noreturn]] void refuse_unreadable(const std::string& path) {
  throw InputError(path, std::string("cannot be read: ") + std::strerror(errno));
}

/// zlib reads a file that is not compressed as it is.
class Input {
 public:
  explicit Input(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rbe")) {
    if (!file_) refuse_unreadable(path);
  }

  /// The next bytes; none at the end.
  std::string_view next() {
    errno = 0;
    const int n = gzread(file_.get(), bytes_.data(), static_cast<unsigned>(bytes_.size()));
    int status = Z_OK;
    gzerror(file_.get(), &status);
    if (status == Z_ERRNO) refuse_unreadable(path_);
    if (n < 0 || (n == 0 && status != Z_OK))
      throw InputError(path_, "its compressed data are torn or damaged", "a whole gzip file");
    return {bytes_.data(), static_cast<std::size_t>(n)};
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };

  const std::string& path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::array<char, 1 << 16> bytes_{};
};

}  // namespace

void for_each_line(const std::string& path,
                   const std::function<void(std::string_view text, long line)>& take) {
  const auto input = std::make_unique<Input>(path);
  std::string begun;  // the start of a line whose end has not been read yet
  long line = 1;
  for (std::string_view bytes = input->next(); !bytes.empty(); bytes = input->next()) {
    if (line == 1 && begun.empty() && bytes.starts_with("SQLite format 3"))
      throw InputError(path, "an SQLite database, such as a trace or a history",
                       "a file of lines of JSON");
    for (std::size_t end = bytes.find('\n'); end != std::string_view::npos;
         end = bytes.find('\n')) {
      begun += bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
      if (begun.size() >= longest) break;
      take(begun, line++);
      begun.clear();
    }
    begun += bytes;
    if (begun.size() >= longest)
      throw InputError(path, line, "a line above 1 MiB", "a record of schema 1");
  }
  if (!begun.empty())
    throw InputError(path, line, "the last line is torn (its run was killed while writing)",
                     "a whole record; the next run that appends to this file removes it");
}

}  // namespace opbound
