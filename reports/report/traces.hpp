// What the traces of a run, or of a pair of runs, say: read once for all parts of a report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/band.hpp"

namespace opbound::report {

struct TracedStep {
  std::int64_t step = 0;
  double loss = 0, gradient_norm = 0;
  bool is_skipped = false;
  std::int64_t nonfinite = 0;          ///< elements of the gradients
  std::optional<double> lost_updates;  ///< the largest share of a parameter; none: no full print
  std::string lost_in;                 ///< that parameter
};

struct TraceRun {
  std::string path;
  trace::TraceHead head;
  std::vector<trace::TraceParameter> parameters;
  std::vector<trace::TraceCall> calls;
  std::vector<trace::TraceEvent> events;
  std::vector<TracedStep> steps;
};

/// Two traces side by side.
struct TracePair {
  std::vector<trace::StepDistance> distances;  ///< of the steps that both have; never empty
  std::vector<std::string> differences;        ///< in words: "policy.name fp32 / bf16"
  bool must_agree = false;                     ///< in every bit
  std::optional<trace::Band> band;             ///< of the first one's twins
  std::optional<trace::FirstCall> first_call;  ///< that differs although it read the same
  trace::Cause cause = trace::Cause::fault;    ///< of that

  /// Is there anything to judge by?
  bool has_limits() const { return band || must_agree; }
};

struct Traces {
  std::vector<TraceRun> runs;
  std::optional<TracePair> pair;
};

/// Throws InputError for a trace without a step, and for a pair that cannot be compared: of two
/// models, without a step in common, with twins that are none.
Traces read_traces(const std::vector<std::string>& paths, const std::vector<std::string>& twins);

}  // namespace opbound::report
