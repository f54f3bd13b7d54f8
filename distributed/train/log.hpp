// The log of a training run: JSON Lines, only ever appended to. First a line about the run, then
// one for each step, at the end one about how it ended. suites/training/README.md explains the
// fields.
//
// {"schema":1,"kind":"training_run",...}
// {"schema":1,"kind":"training_step","step":0,"loss":5.5,"loss_hex":"0x1.6p+2",...}
// {"schema":1,"kind":"training_result","verdict":"finished","hash":"0123456789abcdef",...}
//
// A run that is resumed begins with a line about itself; its steps take the place of those that
// were done after the checkpoint and are done again.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/train/trainer.hpp"
#include "reports/history.hpp"

namespace opbound::train {

inline constexpr int training_log_schema = 1;

/// Every choice of a spec, in a fixed order; equal specs give equal bytes. Its file and where
/// checkpoints go are left out: they decide nothing that is computed.
nlohmann::ordered_json json_of(const TrainingSpec& spec);
nlohmann::ordered_json json_of(const ModelSpec& model);
nlohmann::ordered_json json_of(const Policy& policy);

/// What has to be the same in a run that goes on: not how long it is, how it is sharded, by what
/// name its text goes.
nlohmann::ordered_json identity_of(nlohmann::ordered_json spec);

/// "0123456789abcdef", as `hash:` prints it.
std::string text_of_hash(std::uint64_t hash);

/// What is known before the first step.
struct RunRecord {
  std::string file;    ///< the TOML file
  std::string commit;  ///< of opbound
  std::string device;  ///< "cpu", "NVIDIA H200"
  std::int64_t ranks = 1;
  std::string transport;  ///< between them: "one rank", "mpi", "tcp", "nccl 2.28.9"
  std::int64_t parameters = 0;
  std::string data;  ///< the text's file
  std::string data_sha256;
  std::int64_t first_step = 0;     ///< above 0: resumed
  nlohmann::ordered_json spec;     ///< json_of
  Named<std::string> providers;    ///< version by name
  Named<std::string> environment;  ///< as that of a suite's records

  bool operator==(const RunRecord&) const = default;
};

enum class RunEnd : std::uint8_t { finished, interrupted, failed };
inline constexpr std::array<std::string_view, 3> run_end_names{"finished", "interrupted", "failed"};

struct ResultRecord {
  RunEnd end = RunEnd::finished;
  std::string reason;                 ///< why it failed
  std::optional<TrainResult> result;  ///< none where it failed
  double time_ms = 0;                 ///< of all steps of this process

  bool is_finished() const { return end == RunEnd::finished; }
};

/// Writes a log so that it holds whole lines at every moment, whenever the process is killed.
class TrainingLog {
 public:
  /// Appends to a log, makes a new one; a torn last line is cut off. Throws InputError if that is
  /// impossible, another run writes there, or it holds something else.
  explicit TrainingLog(const std::string& path);

  // Each throws InputError if the line cannot be written; the file is as before then.
  void write(const RunRecord& record);
  void write(const StepResult& step);
  void write(const ResultRecord& result);
  /// Returns when the lines are on the disk.
  void close() { writer_.close(); }

 private:
  RecordWriter writer_;
};

/// A run, with all that was resumed of it.
struct LoggedRun {
  std::vector<RunRecord> parts;        ///< in the order in which they ran; never empty
  std::vector<StepResult> steps;       ///< one for each step, the last one that was done of it
  std::optional<ResultRecord> result;  ///< of the last part; none: it was killed or still runs

  const RunRecord& first() const { return parts.front(); }
};

struct LoggedRuns {
  std::vector<LoggedRun> runs;
  bool is_torn = false;  ///< the last line has no end and was left out
};

/// Throws InputError with file and line for what is no log of schema 1. A part that begins where
/// the run before it has come to, or before, with the same spec and data, is taken as its
/// resumption.
LoggedRuns read_training_log(const std::string& path);

}  // namespace opbound::train
