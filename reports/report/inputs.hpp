// What a report is made of: the files of one run, or of a pair of runs, by what they hold.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "distributed/claims/ledger.hpp"
#include "distributed/train/log.hpp"
#include "reports/power.hpp"
#include "reports/record.hpp"

namespace opbound::report {

/// Records of checks, as `opbound run`, `check`, `sweep`, `collective` and an audit write them.
struct RecordFile {
  std::string path;
  std::vector<Record> records;

  /// All of them were made inside a training run: an audit's.
  bool is_audit() const;
};

struct LogFile {
  std::string path;
  std::vector<train::LoggedRun> runs;
};

/// A line of kind attribution_class; what is absent was not replayed.
struct AttributedClass {
  std::int64_t step = 0, micro_batch = 0;
  std::string part, op, pass, precision;
  int layer = -1;
  std::int64_t calls = 0;
  double loss = 0;
  std::optional<double> loss_expected, loss_replayed, gradient, gradient_share;
};

/// A line of kind attribution.
struct AttributedBatch {
  std::int64_t step = 0, micro_batch = 0;
  double measured = 0, predicted = 0, predicted_exact = 0, unattributed = 0, root_of_squares = 0;
  double loss_exact = 0;
  std::optional<double> gradient, gradient_unattributed;  ///< relative to the exact gradient
  std::int64_t nonfinite = 0, changed = 0;
  std::string data_sha256;
  nlohmann::ordered_json spec;
};

/// A line of kind attribution_parameter or attribution_gradient.
struct AttributedParameter {
  std::int64_t step = 0;
  std::string name;
  int layer = -1;
  double measured = 0, largest = 0, unattributed = 0;
  bool is_within = true;
};

/// A line of kind attribution_swap.
struct AttributedSwap {
  std::int64_t step = 0, micro_batch = 0;
  std::string part, how;
  double change = 0, gradient_change = 0;
};

struct AttributionFile {
  std::string path;
  std::vector<AttributedBatch> batches;
  std::vector<AttributedClass> classes;
  std::vector<AttributedParameter> parameters;
  std::vector<AttributedSwap> swaps;
};

/// What `opbound sentinel --out` writes: a planted fault, another twin, or a clean run.
struct SentinelResult {
  std::string kind, name, policy, place;
  std::optional<std::int64_t> steps;  ///< from the fault to the first alarm; none: not found
  std::int64_t false_alarms = 0;
  bool is_place_right = false;

  bool is_planted() const { return kind == "planted_training_fault"; }
};

struct SentinelFile {
  std::string path;
  std::vector<SentinelResult> results;
};

/// Every file that was given; each kind may be missing.
struct Inputs {
  std::vector<RecordFile> records;
  std::vector<LogFile> logs;
  std::vector<std::string> traces;  ///< paths, at most two: a run, or a pair of runs
  std::vector<std::string> twins;   ///< traces of the first one's twins
  std::vector<AttributionFile> attributions;
  std::vector<SentinelFile> sentinels;
  std::vector<std::pair<std::string, PowerTable>> powers;
  std::vector<std::pair<std::string, std::vector<claims::ClaimRecord>>> claims;
};

/// Reads every file as what its first bytes say it is. Throws InputError, naming file and line, for
/// one that is none of these, that is broken, or that holds nothing; and for a third trace.
Inputs read_inputs(const std::vector<std::string>& paths, const std::vector<std::string>& twins);

/// The lines of a file of attributions, and of one of sentinel results.
AttributionFile read_attributions(const std::string& path);
SentinelFile read_sentinel(const std::string& path);

}  // namespace opbound::report
