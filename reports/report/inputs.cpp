#include "reports/report/inputs.hpp"

#include <algorithm>
#include <fstream>

#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/json.hpp"
#include "reports/record_lines.hpp"

namespace opbound::report {
namespace {

constexpr int deepest = 32;  // the spec in an attribution's line needs fewer than 16

/// The `kind` of the first line; empty where there is none, as in a power table of another schema.
std::string first_kind(const std::string& path) {
  std::string kind;
  bool is_first = true;
  for_each_line(path, [&](std::string_view text, long) {
    if (!is_first) return;
    is_first = false;
    const auto json = detail::parse_json<nlohmann::json>(text, deepest);
    if (json.is_object() && json.contains("kind") && json["kind"].is_string())
      kind = json["kind"].get<std::string>();
  });
  if (is_first) throw InputError(path, "no line", "a file that opbound wrote");
  return kind;
}

bool is_trace(const std::string& path) {
  constexpr std::string_view begin = "SQLite format 3";
  std::string bytes(begin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes == begin;
}

bool is_check(std::string_view kind) {
  return std::ranges::any_of(all_check_kinds, [&](CheckKind k) { return name_of(k) == kind; });
}

void read_one(const std::string& path, Inputs& to) {
  if (is_trace(path)) {
    if (to.traces.size() == 2)
      throw InputError(path, "a third trace", "one run or a pair of runs; twins by --twins");
    to.traces.push_back(path);
    return;
  }
  const std::string kind = first_kind(path);
  if (is_check(kind)) {
    to.records.push_back({path, read_records(path)});
  } else if (kind.starts_with("training_")) {
    to.logs.push_back({path, train::read_training_log(path).runs});
  } else if (kind.starts_with("attribution")) {
    to.attributions.push_back(read_attributions(path));
  } else if (kind == "power") {
    to.powers.emplace_back(path, read_power(path));
  } else if (kind == "claim") {
    to.claims.emplace_back(path, claims::read_claim_records(path));
  } else if (kind == "planted_training_fault" || kind == "clean_twin" ||
             kind == "clean_training_run") {
    to.sentinels.push_back(read_sentinel(path));
  } else {
    throw InputError(path, 1, kind.empty() ? "a line without a kind" : "kind '" + kind + "'",
                     "records, a training log, a trace, attributions, sentinel results, a power "
                     "table or claims");
  }
}

}  // namespace

bool RecordFile::is_audit() const {
  return std::ranges::all_of(records, [](const Record& r) { return r.in_situ.has_value(); });
}

Inputs read_inputs(const std::vector<std::string>& paths, const std::vector<std::string>& twins) {
  Inputs inputs;
  for (const std::string& path : paths) read_one(path, inputs);
  for (const std::string& path : twins)
    if (!is_trace(path)) throw InputError(path, "no trace", "the trace of a twin");
  if (!twins.empty() && inputs.traces.size() != 2)
    throw InputError("--twins", std::to_string(inputs.traces.size()) + " traces to compare",
                     "two, the twins being those of the first");
  inputs.twins = twins;
  return inputs;
}

}  // namespace opbound::report
