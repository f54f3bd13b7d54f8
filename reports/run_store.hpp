// The history: runs, each the lines of its records under a name, in one SQLite file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/sqlite.hpp"
#include "reports/table.hpp"

namespace opbound {

/// What the history says of a run without its records.
struct StoredRun {
  std::string name;
  std::string added;  ///< when, UTC: "2026-11-30T02:00:00Z"
  bool is_accepted = false;
  std::uint64_t records = 0;
  Summary summary;
  std::string providers, devices, commits;  ///< those of its records, "own, cudnn"
};

/// Many may read and write one at a time: a run is there whole or not at all.
class RunStore {
 public:
  enum class Missing { refused, made };  ///< what becomes of a file that is not there

  /// Throws InputError if the file is no history of schema 1.
  RunStore(const std::string& path, Missing missing);

  /// Keeps all lines of some files of records, as they stand, as one run. An empty `name` is that
  /// of the first file, numbered where it is taken. Gives the name. Throws InputError if a file
  /// cannot be read, has a line that is no record, or is torn, if there are no records, and if the
  /// name is taken or none.
  std::string add(const std::vector<std::string>& files, const std::string& name = {});

  /// All of them, the oldest first.
  std::vector<StoredRun> runs();
  /// Those that were accepted, the one accepted last at the end.
  std::vector<StoredRun> accepted();
  bool has(const std::string& name);

  /// Makes a run the last accepted one.
  void accept(const std::string& name);

  /// Gives every line of a run that is there, without its newline, and its number from 1.
  void for_each_line(const std::string& name,
                     const std::function<void(std::string_view text, long line)>& take);
  std::vector<Record> records(const std::string& name);

 private:
  std::vector<StoredRun> read_runs(const char* which);

  sqlite::Database database_;
};

/// Where the history is if nobody says: $OPBOUND_HISTORY, else opbound/history.sqlite in
/// $XDG_DATA_HOME or ~/.local/share.
std::string default_store();

}  // namespace opbound
