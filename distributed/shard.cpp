#include "distributed/shard.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "reports/error.hpp"

namespace opbound {
namespace {

// Lines of a part file: "run NAME RANK RANKS", "lost PLACE RECORD", "record PLACE RECORD",
// "done PLACE", "note WORD", "end".

std::string part_file(const ShardName& name, std::int32_t rank) {
  return name.stem + ".rank" + std::to_string(rank);
}
std::string first_line(const ShardName& name, std::int32_t rank) {
  return "run " + name.run + " " + std::to_string(rank) + " " + std::to_string(name.ranks);
}

/// What a launcher calls its job, as a word for file names.
std::string run_name() {
  std::string word;
  for (const char* name : {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"})
    if (const char* value = std::getenv(name))
      word += (word.empty() ? "" : "-") + std::string(value);
  for (char& c : word)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  return word.empty() ? "run" : word;
}

/// Does somebody who lives hold the file locked? A shared lock, so that those who ask do not see
/// each other.
bool is_held(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_free = flock(descriptor, LOCK_SH | LOCK_NB) == 0;
  close(descriptor);
  return !is_free;
}

struct Part {
  std::map<std::size_t, Record> announced;
  std::map<std::size_t, std::vector<Record>> records;
  std::set<std::size_t> done;
  std::vector<std::string> notes;
  bool has_ended = false;
};

/// A whole part file, whose writer is gone; a torn last line is none.
Part read_part(const std::string& path) {
  Part part;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (long number = 1; std::getline(file, line) && !file.eof(); ++number) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space);
    const char* rest = line.data() + std::min(space + 1, line.size());
    if (word == "note") part.notes.emplace_back(rest);
    if (word == "end") part.has_ended = true;
    if (word != "lost" && word != "record" && word != "done") continue;
    std::size_t place = 0;
    const char* const stop = line.data() + line.size();
    const auto [end, error] = std::from_chars(rest, stop, place);
    const bool has_record = error == std::errc{} && end != stop && *end == ' ';
    if (error != std::errc{} || (word != "done" && !has_record))
      throw InputError(path + ":" + std::to_string(number), "'" + line.substr(0, 40) + "'",
                       word + " and a number" + (word == "done" ? "" : ", then a record"));
    if (word == "done") part.done.insert(place);
    if (word == "lost") part.announced.emplace(place, from_json(end + 1, path, number));
    if (word == "record") part.records[place].push_back(from_json(end + 1, path, number));
  }
  return part;
}

/// The part file once this run's rank is done with it; false if it does not come.
bool wait_for_part(const ShardName& name, std::int32_t rank, double seconds) {
  const std::string path = part_file(name, rank);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
      while (flock(descriptor, LOCK_SH) != 0 && errno == EINTR) continue;
      close(descriptor);
      std::string line;
      std::ifstream file(path, std::ios::binary);
      if (std::getline(file, line) && line == first_line(name, rank)) return true;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

ShardName shard_name(const std::string& record_file, std::int32_t rank, std::int32_t ranks) {
  const std::string run = run_name();
  const std::string stem = record_file.empty() ? ".opbound-" + run : record_file + "." + run;
  return {stem, run, rank, ranks};
}

ShardMeeting::ShardMeeting(ShardName name, const std::string& words, double seconds)
    : name_(std::move(name)), path_(name_.stem + ".run") {
  const std::string told = std::to_string(std::hash<std::string>{}(words));
  if (name_.rank == 0)
    call(told);
  else
    come(told, seconds);
}

ShardMeeting::~ShardMeeting() {
  if (descriptor_ < 0) return;
  unlink(path_.c_str());
  close(descriptor_);
}

void ShardMeeting::call(const std::string& words) {
  const InputError other(path_, "another run over ranks is under way here",
                         "another folder, or another --out");
  // Whole and locked before it has its name: whoever finds it held reads this run's line.
  const std::string fresh = path_ + ".new";
  descriptor_ = open(fresh.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw InputError(fresh, std::strerror(errno), "a folder that takes files");
  const bool is_free = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 && !is_held(path_);
  const std::string number = std::to_string(std::random_device{}());
  const std::string text = name_.run + " " + number + " " + words + "\n";
  const bool is_written =
      is_free && ftruncate(descriptor_, 0) == 0 &&
      ::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      std::rename(fresh.c_str(), path_.c_str()) == 0;
  if (is_written) {
    name_.run += "-" + number;
    return;
  }
  const std::string why = std::strerror(errno);
  close(std::exchange(descriptor_, -1));
  if (!is_free) throw other;
  throw InputError(path_, why, "room for a line");
}

void ShardMeeting::come(const std::string& words, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    std::string run, number, told;
    if (is_held(path_) && std::ifstream(path_) >> run >> number >> told && run == name_.run) {
      if (told != words)
        throw InputError("rank " + std::to_string(name_.rank), "other words than rank 0 was given",
                         "the same command on every rank");
      name_.run += "-" + number;
      return;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > seconds)
      throw InputError("rank " + std::to_string(name_.rank), "rank 0 did not come to " + path_,
                       "a folder that all ranks share");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

ShardWriter::ShardWriter(const ShardName& name) : path_(part_file(name, name.rank)) {
  // locked before it has its name: whoever finds it under that finds it locked
  const std::string fresh = path_ + ".new";
  descriptor_ = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw InputError(fresh, std::strerror(errno), "a folder that takes files");
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || std::rename(fresh.c_str(), path_.c_str()) != 0)
    throw InputError(path_, std::strerror(errno), "a file system with locks");
  put(first_line(name, name.rank));
}

ShardWriter::~ShardWriter() { close(descriptor_); }

void ShardWriter::put(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(descriptor_, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) throw InputError(path_, std::strerror(errno), "room for a line");
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

void ShardWriter::announce(std::size_t place, const Record& lost) {
  put("lost " + std::to_string(place) + " " + to_json(lost));
}

void ShardWriter::write(std::size_t place, const std::vector<Record>& records) {
  for (const Record& r : records) put("record " + std::to_string(place) + " " + to_json(r));
  put("done " + std::to_string(place));
}

void ShardWriter::note(const std::string& word) { put("note " + word); }

void ShardWriter::end() { put("end"); }

Merged merge_shards(const ShardName& name, double seconds) {
  Merged merged;
  std::vector<Part> parts(static_cast<std::size_t>(name.ranks));
  for (std::int32_t rank = 0; rank < name.ranks; ++rank) {
    Part& part = parts[static_cast<std::size_t>(rank)];
    if (wait_for_part(name, rank, seconds)) part = read_part(part_file(name, rank));
    if (!part.has_ended) merged.lost.push_back(rank);
    std::error_code ignored;
    std::filesystem::remove(part_file(name, rank), ignored);
    std::filesystem::remove(part_file(name, rank) + ".new", ignored);
    for (const std::string& word : part.notes) merged.notes.try_emplace(word, rank);
  }
  for (const auto& [place, lost] : parts.front().announced) {
    const std::size_t rank = place % parts.size();
    Part& part = parts[rank];
    if (part.done.contains(place)) {
      for (Record& r : part.records[place]) merged.records.push_back(std::move(r));
    } else if (merged.notes.empty()) {
      merged.records.push_back(lost);
      merged.records.back().verdict = Verdict::failed;
      merged.records.back().reason = "rank " + std::to_string(rank) + " was lost";
    }
  }
  return merged;
}

}  // namespace opbound
