// What committed records of other machines say: reports/baseline.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "distributed/claims/experiment.hpp"
#include "distributed/train/log.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/record_lines.hpp"
#include "suites/folder.hpp"

namespace opbound::claims {
namespace {

namespace fs = std::filesystem;

/// Beside suites/. Throws Unavailable where it is not there.
std::string committed(const std::string& name) {
  const fs::path suites = suites_folder("claims");
  const fs::path file = suites.parent_path() / "reports" / "baseline" / name;
  std::error_code ignored;
  if (suites.empty() || !fs::exists(file, ignored))
    throw Unavailable("the committed records reports/baseline/" + name + " are not here");
  return file.string();
}

bool holds_word(const std::string& text, const std::string& word) {
  return word.empty() || text.find(word) != std::string::npos;
}

Measured records(const Given& given, Laboratory&) {
  const std::string name = given.text("file");
  double count = 0, exceeding = 0, elements = 0, error = 0;
  for (const Record& r : read_records(committed(name))) {
    if (!holds_word(r.op, given.text("op")) || !holds_word(r.precision, given.text("precision")) ||
        !holds_word(r.provider, given.text("provider")))
      continue;
    if (r.verdict == Verdict::skipped || r.kind == CheckKind::agreement) continue;
    count += 1;
    exceeding += r.verdict == Verdict::exceeds ? 1 : 0;
    elements += static_cast<double>(r.counts.checked);
    error = std::max(error, r.error_ulp_max.value_or(0));
  }
  if (count == 0) throw Unavailable("reports/baseline/" + name + " has no such record");
  Measured m;
  m.source = "reports/baseline/" + name;
  m.add("records", count, "checks that are on record");
  m.add("exceeding", exceeding, "of them, those beyond their bound");
  m.add("elements", elements, "elements they compared with certified values");
  m.add("error", error, "the largest error", "ulp");
  return m;
}

std::string key_of(const Record& r) {
  std::string key = r.op + " " + r.part + " " + r.direction + " " + r.variant + " " + r.precision +
                    " " + attributes_text(r.attributes) + " " + r.contract + " " + r.inputs.input +
                    " " + r.schedule + " " + std::to_string(r.inputs.seed.value_or(0));
  for (const auto& [name, size] : r.inputs.shape) key.append(" ").append(std::to_string(size));
  return key;
}

Measured versions(const Given& given, Laboratory&) {
  std::map<std::string, std::string> before;
  const std::string precision = given.text("precision");
  for (const Record& r : read_records(committed(given.text("before"))))
    if (!r.output_hash.empty()) before[key_of(r)] = r.output_hash;
  double compared = 0, differing = 0, exceeding = 0;
  for (const Record& r : read_records(committed(given.text("after")))) {
    if (!holds_word(r.precision, precision)) continue;
    exceeding += r.verdict == Verdict::exceeds ? 1 : 0;
    const auto found = before.find(key_of(r));
    if (r.output_hash.empty() || found == before.end()) continue;
    compared += 1;
    differing += found->second == r.output_hash ? 0 : 1;
  }
  if (compared == 0) throw Unavailable("the two files have no check in common");
  Measured m;
  m.source = "reports/baseline/" + given.text("before") + ", " + given.text("after");
  m.add("compared", compared, "outputs that both versions have");
  m.add("differing", differing, "of them, those whose bits differ");
  m.add("exceeding", exceeding, "checks of the later version beyond their bound");
  return m;
}

Measured training_logs(const Given& given, Laboratory&) {
  const auto read = [&](const char* which) {
    const train::LoggedRuns logged = train::read_training_log(committed(given.text(which)));
    if (logged.runs.empty()) throw Unavailable("a committed log has no run");
    return logged.runs.front();
  };
  const train::LoggedRun a = read("a"), b = read("b");
  const std::size_t steps = std::min(a.steps.size(), b.steps.size());
  double differing = 0;
  for (std::size_t i = 0; i < steps; ++i)
    differing +=
        a.steps[i].loss == b.steps[i].loss && a.steps[i].gradient_norm == b.steps[i].gradient_norm
            ? 0
            : 1;
  const bool same = a.result && b.result && a.result->result && b.result->result &&
                    a.result->result->hash == b.result->result->hash;
  Measured m;
  m.source = "reports/baseline/" + given.text("a") + ", " + given.text("b");
  m.add("steps", static_cast<double>(steps), "steps that both runs have", "steps");
  m.add("differing_steps", differing, "steps whose loss or gradient norm differ in a bit", "steps");
  m.add("differing_weights", same ? 0 : 1,
        "1: the weights at the end differ. 0 means a KL of exactly 0 on every prompt");
  return m;
}

Measured matrix_units(const Given& given, Laboratory&) {
  const std::string name = given.text("file");
  double sums = 0, differing = 0;
  for_each_line(committed(name), [&](std::string_view text, long) {
    const nlohmann::json json = nlohmann::json::parse(text);
    sums += json.at("sums").get<double>();
    differing += json.at("differing").get<double>();
  });
  Measured m;
  m.source = "reports/baseline/" + name;
  m.add("sums", sums, "sums of a device's matrix units that an emulation made too");
  m.add("differing", differing, "of them, those that differ in a bit");
  return m;
}

}  // namespace

Experiments record_experiments() {
  const std::string none;
  return {{"records",
           "reads committed records of checks: how many there are, and how many exceed",
           {{"file", std::string("cuda_functions.jsonl")},
            {"op", none},
            {"precision", none},
            {"provider", none}},
           records},
          {"versions",
           "reads the committed records of two versions of a library",
           {{"before", std::string("nccl_2.28.3_h200.jsonl.gz")},
            {"after", std::string("nccl_2.28.9_h200.jsonl.gz")},
            {"precision", none}},
           versions},
          {"training_logs",
           "reads two committed logs of one training run",
           {{"a", std::string("training_cpu.jsonl")}, {"b", std::string("training_h200.jsonl")}},
           training_logs},
          {"matrix_units",
           "reads the committed comparison of emulated matrix units with a device's",
           {{"file", std::string("units_h200.jsonl")}},
           matrix_units}};
}

}  // namespace opbound::claims
