// Indicators that are made from records of checks.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/report/indicators.hpp"
#include "reports/standing.hpp"
#include "reports/text.hpp"

namespace opbound::report::detail {
namespace {

const std::string run_command = "opbound run --out FILE.jsonl";

/// Of some records how many, and the first as the source.
struct Found {
  std::uint64_t count = 0;
  const Record* first = nullptr;

  void take(const Record& r, std::uint64_t n = 1) {
    if (n == 0) return;
    count += n;
    if (first == nullptr) first = &r;
  }
  std::string source(const RecordList& list) const {
    return first == nullptr ? "" : list.link(*first, RecordList::name_of(*first));
  }
};

template <class Take>
void for_each_record(const Inputs& inputs, bool of_audits, Take take) {
  for (const RecordFile& file : inputs.records)
    for (const Record& r : file.records)
      if (r.in_situ.has_value() == of_audits) take(r);
}

/// Elements that are NaN or infinite, or not, against a bound that says something.
std::uint64_t mismatches(const Record& r) {
  const std::uint64_t all = r.nonfinite_mismatch.value_or(0);
  return all - std::min(all, r.counts.vacuous);
}

Indicator largest_ratio(const Material& m) {
  const std::string name = "largest error over its bound", target = "at most 1, the derived bound";
  const Record* worst = nullptr;
  std::uint64_t beyond = 0;
  for (const RecordFile& file : m.inputs.records)
    for (const Record& r : file.records) {
      if (!r.ratio || r.verdict == Verdict::vacuous) continue;
      beyond += *r.ratio > 1 ? 1 : 0;
      if (worst == nullptr || *r.ratio > *worst->ratio) worst = &r;
    }
  if (worst == nullptr) return not_run(name, target, run_command);
  return {name, target,
          legible(*worst->ratio) +
              (beyond > 1 ? ", " + std::to_string(beyond) + " checks above 1" : ""),
          *worst->ratio <= 1 ? Standing::pass : Standing::fail,
          m.list.link(*worst, RecordList::name_of(*worst))};
}

/// Own kernels of the same checks on several devices.
Indicator same_bits(const Material& m) {
  const std::string name = "same bits on every device", target = "all: kernels of one source";
  std::map<std::string, std::pair<const Record*, bool>> checks;  // and whether others were seen
  std::uint64_t compared = 0;
  Found different;
  for_each_record(m.inputs, false, [&](const Record& r) {
    if (r.provider != "own" || r.output_hash.empty()) return;
    Record key;  // what was computed, by anybody
    key.kind = r.kind;
    key.op = r.op;
    key.part = r.part;
    key.direction = r.direction;
    key.variant = r.variant;
    key.precision = r.precision;
    key.attributes = r.attributes;
    key.inputs = r.inputs;
    key.ranks = r.ranks;
    key.schedule = r.schedule;
    const auto [at, is_new] = checks.try_emplace(to_json(key), &r, false);
    if (is_new || at->second.first->device == r.device) return;
    ++compared;
    different.take(r, at->second.first->output_hash == r.output_hash ? 0 : 1);
  });
  if (compared == 0)
    return not_run(name, target, "opbound run --device cuda --out FILE.jsonl, beside one of cpu");
  return {
      name, target,
      std::to_string(compared - different.count) + " of " + std::to_string(compared) + " outputs",
      different.count == 0 ? Standing::pass : Standing::fail, different.source(m.list)};
}

Indicator audit_findings(const Material& m) {
  const std::string name = "audit of the run's calls", target = "no call beyond its bound";
  std::uint64_t calls = 0;
  Found found;
  for_each_record(m.inputs, true, [&](const Record& r) {
    ++calls;
    found.take(r, makes_run_fail(r) ? 1 : 0);
  });
  if (calls == 0)
    return not_run(name, target, "opbound train FILE.toml --audit 100 --audit-out FILE.jsonl");
  Indicator i = none_of(name, target, found.count, "", found.source(m.list));
  i.measured += " of " + std::to_string(calls) + " checked outputs";
  return i;
}

void add_upgrade(const Material& m, std::vector<Indicator>& to) {
  const std::string command = "opbound report OLD.jsonl NEW.jsonl";
  if (m.upgrade == nullptr) {
    to.push_back(not_run("contracts broken by the upgrade", "0", command));
    to.push_back(not_run("errors made larger by the upgrade", "0", command));
    return;
  }
  const ChangeCounts& counts = m.upgrade->counts;
  const std::string source = link_to("upgrade", "the two runs compared");
  const std::string of = "of " + std::to_string(counts.compared()) + " checks";
  to.push_back(
      none_of("contracts broken by the upgrade", "0", counts[Change::contract_broken], of, source));
  to.push_back(
      none_of("errors made larger by the upgrade", "0", counts[Change::worse], of, source));
}

}  // namespace

void add_record_indicators(const Material& m, std::vector<Indicator>& to) {
  to.push_back(largest_ratio(m));
  struct Row {
    const char *name, *target;
    Found found{};
    bool has_limit = true;
  };
  std::array<Row, 7> rows{{{"exceeds", "0 checks"},
                           {"failed", "0 checks"},
                           {"undecided", "0 checks"},
                           {"vacuous", "0 checks that their suite does not allow by name"},
                           {"skipped", "what is absent is told, and fails nothing", {}, false},
                           {"NaN or infinity where there should be none, or the reverse",
                            "0 elements but those whose bound is vacuous"},
                           {"p-value below its level", "0 checks"}}};
  std::uint64_t records = 0;
  for (const RecordFile& file : m.inputs.records)
    for (const Record& r : file.records) {
      ++records;
      rows[0].found.take(r, r.verdict == Verdict::exceeds ? 1 : 0);
      rows[1].found.take(r, r.verdict == Verdict::failed ? 1 : 0);
      rows[2].found.take(r, r.verdict == Verdict::undecided ? 1 : 0);
      rows[3].found.take(r, r.verdict == Verdict::vacuous && !is_allowed(r) ? 1 : 0);
      rows[4].found.take(r, r.verdict == Verdict::skipped ? 1 : 0);
      rows[5].found.take(r, mismatches(r));
      rows[6].found.take(r, r.p_value && r.alpha && *r.p_value < *r.alpha ? 1 : 0);
    }
  for (const Row& row : rows) {
    if (records == 0) {
      to.push_back(not_run(row.name, row.target, run_command));
      continue;
    }
    to.push_back(none_of(row.name, row.target, row.found.count, "", row.found.source(m.list)));
    if (&row != &rows[5]) to.back().measured += " of " + std::to_string(records);
    if (!row.has_limit) to.back().standing = Standing::no_limit;
  }
  to.push_back(same_bits(m));
  to.push_back(audit_findings(m));
  add_upgrade(m, to);
}

}  // namespace opbound::report::detail
