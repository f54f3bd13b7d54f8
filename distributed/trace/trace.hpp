// The trace of a training run: one SQLite file, which other programs can read too. README.md beside
// this file describes its tables.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/fingerprint.hpp"
#include "reports/sqlite.hpp"

namespace opbound::trace {

inline constexpr int trace_schema = 1;
inline constexpr std::size_t positions_kept = 10;

/// What says in a head's environment that a run with no alarm was watched for them.
inline constexpr const char* watched_by = "watched by";

/// What holds for the whole run.
struct TraceHead {
  std::string spec;         ///< json_of of a TrainingSpec; empty: another program's run
  std::string source;       ///< who wrote it: "opbound 0.1.0 1a2b3c4", "pytorch 2.11"
  std::string device;       ///< "cpu", "NVIDIA H200"
  std::string data_sha256;  ///< of the text
  std::int64_t ranks = 1;
  std::vector<std::pair<std::string, std::string>> providers, environment;

  bool operator==(const TraceHead&) const = default;
};

struct TraceParameter {
  std::string name;
  std::string op;  ///< that reads it
  int layer = -1;
  std::vector<std::int64_t> shape;

  bool operator==(const TraceParameter&) const = default;
};

/// One call of the tapes, the same in every step.
struct TraceCall {
  int phase = 0;  ///< Phase
  std::int64_t index = 0;
  int layer = -1;
  std::string part, op, direction, precision, variant, provider;

  bool operator==(const TraceCall&) const = default;
};

/// What costs more than a pass over the gradient.
struct FullPrint {
  /// Places of the largest elements by magnitude, the largest first, the first of equals first.
  std::vector<std::int64_t> largest;
  std::vector<double> shares;   ///< of the largest singular values, of matrices
  double update_to_weight = 0;  ///< |w' - w| / |w|; 0 where |w| is 0
  /// Of the elements whose gradient is not 0, those whose weight stayed as it was.
  double lost_updates = 0;
  std::uint64_t weight_hash = 0;  ///< after the update

  bool operator==(const FullPrint&) const = default;
};

struct TraceStep {
  std::int64_t step = 0;
  double loss = 0, loss_scale = 1, lr = 0, gradient_norm = 0;
  bool is_skipped = false;
  std::int64_t tokens = 0;
  double time_ms = 0;
  std::uint64_t sample_hash = 0;        ///< of the tokens and targets of all micro-batches
  std::uint64_t random_hash = 0;        ///< of the keys of their random numbers
  std::vector<GradientSums> gradients;  ///< by parameter: of the mean over micro-batches
  std::vector<FullPrint> full;          ///< by parameter; empty: not of this step
  /// By prompt: the logits of the token after it, with the weights after the update; empty: not of
  /// this step.
  std::vector<std::vector<float>> prompts;
};

/// The bits that a call read and wrote.
struct CallBits {
  std::int64_t step = 0, micro_batch = -1;
  int phase = 0;
  std::int64_t index = 0;
  std::uint64_t inputs = 0, outputs = 0;

  bool operator==(const CallBits&) const = default;
};

/// Something that was noticed while the run went on.
struct TraceEvent {
  std::int64_t step = 0;
  std::string level;  ///< "step", "end to end", "trend"
  std::string check, place, text;

  bool operator==(const TraceEvent&) const = default;
};

/// One writer and any number of readers; what was written of a step is there whole, whenever the
/// writer is killed.
class TraceFile {
 public:
  enum class Open : std::uint8_t { read, make, go_on };

  /// Throws InputError where there is no trace to read or go on with, and where `make` finds one.
  TraceFile(const std::string& path, Open how);

  // ---- writing. Each throws InputError where the file cannot be written.

  void write_head(const TraceHead& head, const std::vector<TraceParameter>& parameters);
  void write_calls(const std::vector<TraceCall>& calls);
  void write(const TraceStep& step, const std::vector<CallBits>& bits);
  void write(const TraceEvent& event);
  /// Forgets what was written of this step and the later ones: a run goes on before it. Alarms
  /// stay, for what was alarmed is why it went back.
  void drop_from(std::int64_t step);

  // ---- reading

  TraceHead head();
  std::vector<TraceParameter> parameters();
  std::vector<TraceCall> calls();
  /// In the order of steps; `take` may say to go no further by returning false.
  void for_each_step(const std::function<bool(const TraceStep&)>& take);
  std::optional<TraceStep> step(std::int64_t step);
  /// The last one; -1: none.
  std::int64_t last_step();
  std::vector<CallBits> bits(std::int64_t step);
  std::vector<TraceEvent> events();

  const std::string& path() const { return database_.path(); }

 private:
  TraceStep read_step(sqlite::Statement& row);
  int phase_of(const sqlite::Statement& row, int column) const;
  void write_gradient(std::int64_t step, std::size_t parameter, const GradientSums& sums);
  void write_full(std::int64_t step, std::size_t parameter, const FullPrint& full);

  sqlite::Database database_;
  std::size_t parameter_count_ = 0;
};

}  // namespace opbound::trace
