#include "distributed/trace/trace.hpp"

#include <cstring>
#include <filesystem>

#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using sqlite::Statement;
using sqlite::Transaction;

constexpr int application = 0x6f706274;                             // "opbt", in SQLite's header
constexpr std::int64_t last_possible_step = std::int64_t{1} << 40;  // of `opbound train`'s flags
constexpr int patience_ms = 10'000;  // a step's rows take milliseconds
constexpr const char* expected = "a trace that `opbound train --trace` made";

constexpr const char* tables = R"sql(
CREATE TABLE head (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE parameter (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, op TEXT NOT NULL, layer INTEGER NOT NULL,
  shape TEXT NOT NULL);  -- "768, 3072"
CREATE TABLE call (
  phase INTEGER NOT NULL, place INTEGER NOT NULL, layer INTEGER NOT NULL, part TEXT NOT NULL,
  op TEXT NOT NULL, direction TEXT NOT NULL, precision TEXT NOT NULL, variant TEXT NOT NULL,
  provider TEXT NOT NULL, PRIMARY KEY (phase, place));
CREATE TABLE step (
  step INTEGER PRIMARY KEY, loss REAL, loss_scale REAL, lr REAL, gradient_norm REAL,
  skipped INTEGER NOT NULL, tokens INTEGER NOT NULL, time_ms REAL, sample_hash INTEGER NOT NULL,
  random_hash INTEGER NOT NULL);
CREATE TABLE gradient (
  step INTEGER NOT NULL, parameter INTEGER NOT NULL REFERENCES parameter, count INTEGER NOT NULL,
  nonfinite INTEGER NOT NULL, sum REAL NOT NULL, square REAL NOT NULL, hash INTEGER NOT NULL,
  sketch BLOB NOT NULL,  -- 64 doubles, little-endian
  PRIMARY KEY (step, parameter)) WITHOUT ROWID;
CREATE TABLE full (
  step INTEGER NOT NULL, parameter INTEGER NOT NULL REFERENCES parameter,
  largest BLOB NOT NULL,  -- int64
  shares BLOB NOT NULL,   -- doubles
  update_to_weight REAL, lost_updates REAL, weight_hash INTEGER NOT NULL,
  PRIMARY KEY (step, parameter)) WITHOUT ROWID;
CREATE TABLE prompt (
  step INTEGER NOT NULL, prompt INTEGER NOT NULL,
  logits BLOB NOT NULL,  -- floats, little-endian
  PRIMARY KEY (step, prompt)) WITHOUT ROWID;
CREATE TABLE bits (
  step INTEGER NOT NULL, micro_batch INTEGER NOT NULL, phase INTEGER NOT NULL,
  place INTEGER NOT NULL, inputs INTEGER NOT NULL, outputs INTEGER NOT NULL,
  PRIMARY KEY (step, micro_batch, phase, place)) WITHOUT ROWID;
CREATE TABLE event (
  id INTEGER PRIMARY KEY, step INTEGER NOT NULL, level TEXT NOT NULL, "check" TEXT NOT NULL,
  place TEXT NOT NULL, text TEXT NOT NULL);
)sql";

template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class T>
std::vector<T> values_of(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::uint64_t word(std::int64_t number) { return static_cast<std::uint64_t>(number); }
std::int64_t whole(const Statement& row, int column) {
  return static_cast<std::int64_t>(row.number(column));
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

std::vector<std::int64_t> shape_of(const std::string& text, const std::string& path) {
  std::vector<std::int64_t> shape;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t n = 0;
    const std::size_t first = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && n < (1LL << 40); ++at)
      n = 10 * n + (text[at] - '0');
    if (at == first) throw InputError(path, "a shape '" + text + "'", expected);
    shape.push_back(n);
    if (text.compare(at, 2, ", ") == 0) at += 2;
  }
  return shape;
}

const std::string& existing(const std::string& path, TraceFile::Open how) {
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(path, ignored);
  if (how == TraceFile::Open::make && is_there)
    throw InputError(path, "there is a file already", "--resume to go on, or a new file's name");
  if (how != TraceFile::Open::make && !is_there) throw InputError(path, "no such file", expected);
  return path;
}

constexpr std::array<const char*, 5> head_keys{"spec", "source", "device", "data_sha256", "ranks"};

}  // namespace

TraceFile::TraceFile(const std::string& path, Open how)
    : database_(existing(path, how), how == Open::make, patience_ms, expected) {
  if (how == Open::make) {
    database_.execute("PRAGMA journal_mode = WAL");
    Transaction transaction(database_);
    database_.execute(tables);
    database_.execute(("PRAGMA application_id = " + std::to_string(application) +
                       "; PRAGMA user_version = " + std::to_string(trace_schema))
                          .c_str());
    transaction.commit();
  }
  // A killed process loses nothing so; a machine that stops may lose the last steps.
  database_.execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
  if (database_.number("PRAGMA application_id") != application)
    throw InputError(path, "is an SQLite database of something else", expected);
  if (const auto found = database_.number("PRAGMA user_version"); found != trace_schema)
    throw InputError(path, "is a trace of schema " + std::to_string(found),
                     std::to_string(trace_schema) + ", which this opbound reads");
  parameter_count_ = static_cast<std::size_t>(database_.number("SELECT count(*) FROM parameter"));
}

// ---- writing

void TraceFile::write_head(const TraceHead& head, const std::vector<TraceParameter>& parameters) {
  Transaction transaction(database_);
  const auto put = [&](const std::string& key, const std::string& value) {
    Statement row(database_, "INSERT INTO head VALUES (?, ?)");
    row.bind(std::string_view(key)).bind(std::string_view(value)).step();
  };
  const std::array<std::string, 5> values{head.spec, head.source, head.device, head.data_sha256,
                                          std::to_string(head.ranks)};
  for (std::size_t i = 0; i < head_keys.size(); ++i) put(head_keys[i], values[i]);
  for (const auto& [name, version] : head.providers) put("provider " + name, version);
  for (const auto& [name, value] : head.environment) put("environment " + name, value);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    Statement row(database_, "INSERT INTO parameter VALUES (?, ?, ?, ?, ?)");
    row.bind(p).bind(std::string_view(parameters[p].name)).bind(std::string_view(parameters[p].op));
    row.bind(word(parameters[p].layer)).bind(std::string_view(text_of(parameters[p].shape)));
    row.step();
  }
  transaction.commit();
  parameter_count_ = parameters.size();
}

void TraceFile::write_calls(const std::vector<TraceCall>& calls) {
  Transaction transaction(database_);
  for (const TraceCall& c : calls) {
    Statement row(database_, "INSERT OR REPLACE INTO call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row.bind(word(c.phase)).bind(word(c.index)).bind(word(c.layer));
    for (const std::string* text :
         {&c.part, &c.op, &c.direction, &c.precision, &c.variant, &c.provider})
      row.bind(std::string_view(*text));
    row.step();
  }
  transaction.commit();
}

void TraceFile::write(const TraceStep& s, const std::vector<CallBits>& bits) {
  Transaction transaction(database_);
  Statement row(database_, "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.bind(word(s.step)).bind(s.loss).bind(s.loss_scale).bind(s.lr).bind(s.gradient_norm);
  row.bind(word(s.is_skipped ? 1 : 0)).bind(word(s.tokens)).bind(s.time_ms);
  row.bind(s.sample_hash).bind(s.random_hash).step();
  for (std::size_t p = 0; p < s.gradients.size(); ++p) write_gradient(s.step, p, s.gradients[p]);
  for (std::size_t p = 0; p < s.full.size(); ++p) write_full(s.step, p, s.full[p]);
  for (std::size_t p = 0; p < s.prompts.size(); ++p) {
    Statement prompt(database_, "INSERT INTO prompt VALUES (?, ?, ?)");
    prompt.bind(word(s.step)).bind(p);
    prompt.bind_bytes(bytes_of(std::span<const float>(s.prompts[p]))).step();
  }
  Statement call(database_, "INSERT INTO bits VALUES (?, ?, ?, ?, ?, ?)");
  for (const CallBits& b : bits) {
    call.reset();
    call.bind(word(b.step)).bind(word(b.micro_batch)).bind(word(b.phase)).bind(word(b.index));
    call.bind(b.inputs).bind(b.outputs).step();
  }
  transaction.commit();
}

void TraceFile::write_gradient(std::int64_t step, std::size_t parameter, const GradientSums& g) {
  Statement row(database_, "INSERT INTO gradient VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  row.bind(word(step)).bind(parameter).bind(word(g.count)).bind(word(g.nonfinite));
  row.bind(g.sum).bind(g.square).bind(g.hash);
  row.bind_bytes(bytes_of(std::span<const double>(g.sketch))).step();
}

void TraceFile::write_full(std::int64_t step, std::size_t parameter, const FullPrint& f) {
  Statement row(database_, "INSERT INTO full VALUES (?, ?, ?, ?, ?, ?, ?)");
  row.bind(word(step)).bind(parameter);
  row.bind_bytes(bytes_of(std::span<const std::int64_t>(f.largest)));
  row.bind_bytes(bytes_of(std::span<const double>(f.shares)));
  row.bind(f.update_to_weight).bind(f.lost_updates).bind(f.weight_hash).step();
}

void TraceFile::write(const TraceEvent& e) {
  Statement row(database_,
                "INSERT INTO event (step, level, \"check\", place, text) VALUES (?, ?, ?, ?, ?)");
  row.bind(word(e.step));
  for (const std::string* text : {&e.level, &e.check, &e.place, &e.text})
    row.bind(std::string_view(*text));
  row.step();
}

void TraceFile::drop_from(std::int64_t step) {
  Transaction transaction(database_);
  for (const char* sql :
       {"DELETE FROM step WHERE step >= ?", "DELETE FROM gradient WHERE step >= ?",
        "DELETE FROM full WHERE step >= ?", "DELETE FROM bits WHERE step >= ?",
        "DELETE FROM prompt WHERE step >= ?"}) {
    Statement rows(database_, sql);
    rows.bind(word(step)).step();
  }
  transaction.commit();
}

// ---- reading

TraceHead TraceFile::head() {
  TraceHead head;
  std::map<std::string, std::string> values;
  Statement row(database_, "SELECT key, value FROM head ORDER BY key");
  while (row.step()) {
    const std::string key = row.text(0);
    if (key.starts_with("provider "))
      head.providers.emplace_back(key.substr(9), row.text(1));
    else if (key.starts_with("environment "))
      head.environment.emplace_back(key.substr(12), row.text(1));
    else
      values[key] = row.text(1);
  }
  for (const char* key : head_keys)
    if (!values.contains(key)) throw InputError(path(), std::string("no ") + key, expected);
  head.spec = values["spec"];
  head.source = values["source"];
  head.device = values["device"];
  head.data_sha256 = values["data_sha256"];
  const std::vector<std::int64_t> ranks = shape_of(values["ranks"], path());
  head.ranks = ranks.empty() ? 1 : ranks.front();
  return head;
}

std::vector<TraceParameter> TraceFile::parameters() {
  std::vector<TraceParameter> all;
  Statement row(database_, "SELECT name, op, layer, shape FROM parameter ORDER BY id");
  while (row.step())
    all.push_back(
        {row.text(0), row.text(1), static_cast<int>(whole(row, 2)), shape_of(row.text(3), path())});
  return all;
}

int TraceFile::phase_of(const Statement& row, int column) const {
  const std::int64_t phase = whole(row, column);
  if (phase < 0 || phase > 2)
    throw InputError(path(), "a call of phase " + std::to_string(phase), "0, 1 or 2");
  return static_cast<int>(phase);
}

std::vector<TraceCall> TraceFile::calls() {
  std::vector<TraceCall> all;
  Statement row(database_, "SELECT * FROM call ORDER BY phase, place");
  while (row.step())
    all.push_back({phase_of(row, 0), whole(row, 1), static_cast<int>(whole(row, 2)), row.text(3),
                   row.text(4), row.text(5), row.text(6), row.text(7), row.text(8)});
  return all;
}

TraceStep TraceFile::read_step(Statement& row) {
  TraceStep s{whole(row, 0),
              row.real(1),
              row.real(2),
              row.real(3),
              row.real(4),
              row.number(5) > 0,
              whole(row, 6),
              row.real(7),
              row.number(8),
              row.number(9),
              {},
              {},
              {}};
  const auto refuse = [&] {
    throw InputError(path(), "step " + std::to_string(s.step) + " is damaged", expected);
  };
  if (s.step < 0 || s.step > last_possible_step) refuse();
  Statement gradients(database_,
                      "SELECT parameter, count, nonfinite, sum, square, hash, sketch FROM gradient "
                      "WHERE step = ? ORDER BY parameter");
  gradients.bind(word(s.step));
  while (gradients.step()) {
    GradientSums g{whole(gradients, 1), whole(gradients, 2), gradients.real(3),
                   gradients.real(4),   gradients.number(5), {}};
    const std::string_view bytes = gradients.bytes(6);
    if (gradients.number(0) != s.gradients.size() || bytes.size() != sizeof g.sketch) refuse();
    std::memcpy(g.sketch.data(), bytes.data(), bytes.size());
    s.gradients.push_back(g);
  }
  Statement full(database_,
                 "SELECT parameter, largest, shares, update_to_weight, lost_updates, weight_hash "
                 "FROM full WHERE step = ? ORDER BY parameter");
  full.bind(word(s.step));
  while (full.step()) {
    if (full.number(0) != s.full.size()) refuse();
    FullPrint f{values_of<std::int64_t>(full.bytes(1)), values_of<double>(full.bytes(2)),
                full.real(3), full.real(4), full.number(5)};
    s.full.push_back(std::move(f));
  }
  Statement prompts(database_, "SELECT logits FROM prompt WHERE step = ? ORDER BY prompt");
  prompts.bind(word(s.step));
  while (prompts.step()) s.prompts.push_back(values_of<float>(prompts.bytes(0)));
  if (s.gradients.size() != parameter_count_ ||
      (!s.full.empty() && s.full.size() != parameter_count_))
    refuse();
  return s;
}

void TraceFile::for_each_step(const std::function<bool(const TraceStep&)>& take) {
  Statement row(database_, "SELECT * FROM step ORDER BY step");
  while (row.step())
    if (!take(read_step(row))) return;
}

std::optional<TraceStep> TraceFile::step(std::int64_t step) {
  Statement row(database_, "SELECT * FROM step WHERE step = ?");
  row.bind(word(step));
  if (!row.step()) return std::nullopt;
  return read_step(row);
}

std::int64_t TraceFile::last_step() {
  return database_.number("SELECT ifnull(max(step), -1) FROM step");
}

std::vector<CallBits> TraceFile::bits(std::int64_t step) {
  std::vector<CallBits> all;
  Statement row(database_, "SELECT * FROM bits WHERE step = ? ORDER BY micro_batch, phase, place");
  row.bind(word(step));
  while (row.step())
    all.push_back({whole(row, 0), whole(row, 1), phase_of(row, 2), whole(row, 3), row.number(4),
                   row.number(5)});
  return all;
}

std::vector<TraceEvent> TraceFile::events() {
  std::vector<TraceEvent> all;
  Statement row(database_, "SELECT step, level, \"check\", place, text FROM event ORDER BY id");
  while (row.step())
    all.push_back({whole(row, 0), row.text(1), row.text(2), row.text(3), row.text(4)});
  return all;
}

}  // namespace opbound::trace
