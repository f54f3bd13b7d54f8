#include "reports/run_store.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>

#include "reports/error.hpp"
#include "reports/record_kind.hpp"
#include "reports/record_lines.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

constexpr int application = 0x6f706264;  // "opbd", in SQLite's header
constexpr int schema = 1;
constexpr const char* expected = "a history that `opbound history add` made";
constexpr int patience_ms = 60'000;          // an upload of 10^6 records takes a few seconds
constexpr std::size_t block_size = 1 << 20;  // of lines, before they are compressed

constexpr const char* tables = R"sql(
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  added TEXT NOT NULL,
  accepted INTEGER UNIQUE,  -- counts up: the largest is the last accepted run
  records INTEGER NOT NULL,
  checked INTEGER NOT NULL,
  failed INTEGER NOT NULL, exceeds INTEGER NOT NULL, undecided INTEGER NOT NULL,
  vacuous INTEGER NOT NULL, skipped INTEGER NOT NULL, within INTEGER NOT NULL,
  allowed_vacuous INTEGER NOT NULL,
  providers TEXT NOT NULL, devices TEXT NOT NULL, commits TEXT NOT NULL);
CREATE TABLE block (  -- some of a run's lines, compressed by zlib
  run INTEGER NOT NULL REFERENCES run,
  number INTEGER NOT NULL,
  size INTEGER NOT NULL,  -- in bytes, before
  lines BLOB NOT NULL,
  PRIMARY KEY (run, number));
)sql";

// ---- lines, in compressed blocks

struct Block {
  std::uint64_t size;
  std::string bytes;
};

Block compressed(std::string_view lines) {
  uLongf size = compressBound(lines.size());
  Block block{lines.size(), std::string(size, '\0')};
  if (compress(reinterpret_cast<Bytef*>(block.bytes.data()), &size,
               reinterpret_cast<const Bytef*>(lines.data()), lines.size()) != Z_OK)
    throw std::bad_alloc();  // the only reason there is
  block.bytes.resize(size);
  return block;
}

std::string decompressed(std::uint64_t size, std::string_view bytes, const std::string& where) {
  constexpr std::uint64_t largest = 2 * block_size;  // and one line beyond
  uLongf got = std::min(size, largest);
  std::string lines(got, '\0');
  if (size > largest ||
      uncompress(reinterpret_cast<Bytef*>(lines.data()), &got,
                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK ||
      got != size)
    throw InputError(where, "its records are damaged", "a copy of the history that is whole");
  return lines;
}

/// All lines of a run that is to be kept, and what they say together.
struct Packed {
  std::vector<Block> blocks;
  std::uint64_t records = 0;
  Summary summary;
  std::set<std::string> providers, devices, commits;

  explicit Packed(const std::vector<std::string>& files) {
    std::string lines;
    for (const std::string& file : files)
      for_each_line(file, [&](std::string_view text, long line) {
        if (line == 1) refuse_other_lines(text, file);
        take(from_json(text, file, line));
        lines.append(text).append("\n");
        if (lines.size() < block_size) return;
        blocks.push_back(compressed(lines));
        lines.clear();
      });
    if (!lines.empty()) blocks.push_back(compressed(lines));
    if (records == 0)
      throw InputError(files.empty() ? "" : files.front(), "no records",
                       "a file that `opbound run --out` wrote");
  }

 private:
  void take(const Record& record) {
    ++records;
    summary.add(record);
    for (const auto& [from, to] : {std::pair(&record.provider, &providers),
                                   {&record.device, &devices},
                                   {&record.commit, &commits}})
      if (!from->empty()) to->insert(*from);
  }
};

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::string text(sizeof "2026-11-30T02:00:00Z", '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

// ---- names

/// A name has to pass through a shell, a table and `history:NAME`.
bool is_name(std::string_view text) {
  const auto may_stand = [](unsigned char c) { return c > ' ' && c != 127; };
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, may_stand);
}

/// "records" of "runs/records.jsonl.gz".
std::string stem_of(const std::string& file) {
  std::string name = fs::path(file).filename().string();
  name = name.substr(0, name.find('.', 1));
  std::ranges::replace_if(
      name, [](unsigned char c) { return c <= ' ' || c == 127; }, '_');
  return is_name(name) ? name : "run";
}

std::string name_for(RunStore& store, const std::string& wished, const std::string& file) {
  if (!wished.empty()) {
    if (!is_name(wished))
      throw InputError("--name", "'" + wished + "'", "a name without blanks that no '-' begins");
    if (store.has(wished))
      throw InputError("--name", "there is a run '" + wished + "' already", "a new name");
    return wished;
  }
  const std::string stem = stem_of(file);
  std::string name = stem;
  for (int n = 2; store.has(name); ++n) name = stem + "-" + std::to_string(n);
  return name;
}

std::string existing(const std::string& path, RunStore::Missing missing) {
  std::error_code ignored;
  if (missing == RunStore::Missing::refused && !fs::exists(path, ignored))
    throw InputError(path, "no such file", "a history; `opbound history add` makes one");
  if (fs::is_directory(path, ignored)) throw InputError(path, "is a folder", "a history's file");
  const fs::path folder = fs::path(path).parent_path();
  if (path == default_store()) fs::create_directories(folder, ignored);
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    throw InputError(path, "its folder does not exist", "a file in a folder that does");
  return path;
}

}  // namespace

RunStore::RunStore(const std::string& path, Missing missing)
    : database_(existing(path, missing), missing == Missing::made, patience_ms, expected) {
  database_.execute("PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON");
  const auto is_new = [&] { return database_.number("SELECT count(*) FROM sqlite_master") == 0; };
  if (is_new() && missing == Missing::made) {
    sqlite::Transaction transaction(database_);
    if (is_new()) {  // nobody was quicker
      database_.execute(tables);
      database_.execute(("PRAGMA application_id = " + std::to_string(application) +
                         "; PRAGMA user_version = " + std::to_string(schema))
                            .c_str());
    }
    transaction.commit();
  }
  if (database_.number("PRAGMA application_id") != application)
    throw InputError(path, "is an SQLite database of something else", expected);
  if (const auto found = database_.number("PRAGMA user_version"); found != schema)
    throw InputError(path, "is a history of schema " + std::to_string(found),
                     std::to_string(schema) + ", which this opbound reads");
}

std::string RunStore::add(const std::vector<std::string>& files, const std::string& wished) {
  const Packed run(files);  // before the transaction, so that others wait for the writing only
  sqlite::Transaction transaction(database_);
  std::string name = name_for(*this, wished, files.front());
  sqlite::Statement insert(database_,
                           "INSERT INTO run (name, added, records, checked, failed, exceeds, "
                           "undecided, vacuous, skipped, within, allowed_vacuous, providers, "
                           "devices, commits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(name).bind(now_utc()).bind(run.records).bind(run.summary.checked);
  for (const Verdict v : all_verdicts) insert.bind(run.summary.verdicts[v]);
  insert.bind(run.summary.allowed_vacuous);
  for (const auto* words : {&run.providers, &run.devices, &run.commits})
    insert.bind(joined(*words));
  insert.step();
  const auto id = static_cast<std::uint64_t>(database_.last_row());
  for (std::size_t i = 0; i < run.blocks.size(); ++i)
    sqlite::Statement(database_, "INSERT INTO block (run, number, size, lines) VALUES (?, ?, ?, ?)")
        .bind(id)
        .bind(std::uint64_t{i})
        .bind(run.blocks[i].size)
        .bind_bytes(run.blocks[i].bytes)
        .step();
  transaction.commit();
  return name;
}

std::vector<StoredRun> RunStore::read_runs(const char* which) {
  const std::string sql =
      "SELECT name, added, accepted, records, checked, failed, exceeds, undecided, vacuous, "
      "skipped, within, allowed_vacuous, providers, devices, commits FROM run ";
  sqlite::Statement select(database_, (sql + which).c_str());
  std::vector<StoredRun> runs;
  while (select.step()) {
    StoredRun& run = runs.emplace_back();
    int at = 0;
    run.name = select.text(at++);
    run.added = select.text(at++);
    run.is_accepted = !select.is_null(at++);
    run.records = select.number(at++);
    run.summary.checked = select.number(at++);
    for (std::uint64_t& count : run.summary.verdicts.of) count = select.number(at++);
    run.summary.allowed_vacuous = select.number(at++);
    for (std::string* words : {&run.providers, &run.devices, &run.commits})
      *words = select.text(at++);
  }
  return runs;
}

std::vector<StoredRun> RunStore::runs() { return read_runs("ORDER BY id"); }

std::vector<StoredRun> RunStore::accepted() {
  return read_runs("WHERE accepted IS NOT NULL ORDER BY accepted");
}

bool RunStore::has(const std::string& name) {
  return sqlite::Statement(database_, "SELECT 1 FROM run WHERE name = ?").bind(name).step();
}

void RunStore::accept(const std::string& name) {
  sqlite::Transaction transaction(database_);
  sqlite::Statement(database_,
                    "UPDATE run SET accepted = (SELECT coalesce(max(accepted), 0) + 1 FROM run) "
                    "WHERE name = ?")
      .bind(name)
      .step();
  transaction.commit();
}

void RunStore::for_each_line(const std::string& name,
                             const std::function<void(std::string_view text, long line)>& take) {
  sqlite::Statement select(database_,
                           "SELECT size, lines FROM block JOIN run ON run.id = block.run "
                           "WHERE name = ? ORDER BY number");
  select.bind(name);
  long line = 0;
  while (select.step()) {
    const std::string lines =
        decompressed(select.number(0), select.bytes(1), database_.path() + " run " + name);
    std::string_view rest = lines;
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      take(rest.substr(0, end), ++line);
      rest.remove_prefix(end + 1);
    }
  }
}

std::vector<Record> RunStore::records(const std::string& name) {
  std::vector<Record> records;
  for_each_line(name, [&](std::string_view text, long line) {
    records.push_back(from_json(text, "history:" + name, line));
  });
  return records;
}

std::string default_store() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (std::string file = value("OPBOUND_HISTORY"); !file.empty()) return file;
  fs::path folder = value("XDG_DATA_HOME");
  if (folder.empty() && value("HOME").empty())
    throw InputError("history", "neither OPBOUND_HISTORY nor HOME is set", "--store FILE");
  if (folder.empty()) folder = fs::path(value("HOME")) / ".local/share";
  return folder / "opbound/history.sqlite";
}

}  // namespace opbound
