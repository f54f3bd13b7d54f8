// A run's cases dealt out to ranks, and their records put together again by rank 0.
//
// Ranks share no more than a folder: each writes a part file and holds its lock for as long as it
// lives, so that rank 0, which waits for the lock, learns of an end and of a death alike. What ran
// is told by the process that ran it, what did not by rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reports/record.hpp"

namespace opbound {

/// Which run of which rank.
struct ShardName {
  std::string stem;  ///< of the part files' names
  std::string run;   ///< the launcher's word for the job, so that older files are told from ours
  std::int32_t rank = 0, ranks = 1;
};

/// Beside the run's record file; in the current folder where it has none.
ShardName shard_name(const std::string& record_file, std::int32_t rank, std::int32_t ranks);

/// Where the ranks of one run meet, whatever other runs left in the folder: rank 0 holds a file
/// locked, with a number that no other run has; the others read it there.
class ShardMeeting {
 public:
  /// `words`: what all ranks were told, alike. Throws InputError where another run meets, rank 0
  /// was told something else, or does not come within so many seconds.
  ShardMeeting(ShardName name, const std::string& words, double seconds);
  /// Rank 0 takes the file away.
  ~ShardMeeting();
  ShardMeeting(const ShardMeeting&) = delete;
  ShardMeeting& operator=(const ShardMeeting&) = delete;

  /// The name with the number in it: part files of other runs are none of this one.
  const ShardName& name() const { return name_; }

 private:
  void call(const std::string& words);
  void come(const std::string& words, double seconds);

  ShardName name_;
  std::string path_;
  int descriptor_ = -1;
};

/// What a rank has run. Throws InputError where the file cannot be written.
class ShardWriter {
 public:
  explicit ShardWriter(const ShardName& name);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Rank 0 says of every case what stands for it should its rank be lost.
  void announce(std::size_t place, const Record& lost);
  void write(std::size_t place, const std::vector<Record>& records);
  /// A word for rank 0: why this rank does not run all of its cases.
  void note(const std::string& word);
  void end();

 private:
  void put(const std::string& line);

  std::string path_;
  int descriptor_ = -1;
};

struct Merged {
  std::vector<Record> records;  ///< in the order in which one rank would have made them
  std::map<std::string, std::int32_t> notes;  ///< and the first rank that has each
  std::vector<std::int32_t> lost;             ///< ranks that did not end
};

/// Waits for all ranks and takes their part files away. A lost rank's cases are `failed`; where any
/// rank left a note, why it ended before its end, cases that did not run are left out. A rank whose
/// file has not come after so many seconds is lost.
Merged merge_shards(const ShardName& name, double seconds);

}  // namespace opbound
