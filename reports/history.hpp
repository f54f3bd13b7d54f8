// Files of records: JSON Lines, one record in each line, only ever appended to.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "reports/record.hpp"

namespace opbound {

/// All records of a file, in order, also of one that gzip compressed. Throws InputError with file
/// and line if it cannot be read, if a line is no record of schema 1, and if the last line is torn
/// (its run was killed while writing).
std::vector<Record> read_records(const std::string& path);

/// Appends records to a file so that it holds whole lines at every moment: each line is one
/// write(2), and what a failing write leaves behind is cut off again. One writer at a time.
class RecordWriter {
 public:
  /// Opens or makes the file; a torn last line of an earlier run is cut off. Throws InputError if
  /// that is impossible, another writer holds the file, or it holds something else than records,
  /// whose lines begin so.
  explicit RecordWriter(std::string path, std::string line_start = "{\"schema\":");
  /// Like close(), but silent about errors.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Throws InputError if the line cannot be written (a full disk); the file is as before then.
  void write(const Record& record);
  /// The same for a record of another kind, in JSON without the newline.
  void write_line(const std::string& json);

  /// Returns when the records are on the disk. Throws InputError if they do not get there.
  void close();

 private:
  void mend_end() const;

  bool could_start_a_line(off_t offset) const;

  std::string path_, line_start_;
  int descriptor_ = -1;
  bool regular_ = false;  // a pipe or a terminal cannot be locked, mended or synced
};

}  // namespace opbound
