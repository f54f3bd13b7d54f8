// Changes of a run's settings, and of a check, whose effect was measured: by running it again with
// the change.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/report/inputs.hpp"

namespace opbound::report {

/// One change that was tried, and what it did to what the report found.
struct Tried {
  /// A rule more of the policy: "op = \"matmul\", precision = \"fp32\""; or lines of the suite's
  /// case: "variant = \"erfc\"".
  std::string change;
  std::string of;         ///< the file, step and micro-batch; or the check
  std::string indicator;  ///< what is compared
  double before = 0, after = 0;
  std::string failure;         ///< why it could not be run; then there are no numbers
  std::string_view verdict{};  ///< of the check with the change; empty: of no check
  bool is_mended = false;      ///< the check with it is no finding any more

  bool is_smaller() const { return failure.empty() && after < before; }
};

struct TryOptions {
  /// Reruns of each file of attributions; and how many checks that fail are changed.
  int most = 3;
  std::function<void(const std::string&)> on_note;  ///< one line before each rerun
};

/// Of each file of attributions the micro-batch with the largest contributions: the run is run
/// again up to it, once for each of the ops that contribute most, with that op in fp32, or in fp64
/// where it was fp32 already. What could not be run says why.
/// Of records the worst failing ones of that many rows: by the own kernel of every other algorithm,
/// under its own algorithm's bound, and computed in the next wider format.
std::vector<Tried> try_changes(const Inputs& inputs, const TryOptions& options);

/// The part of it that is of records.
void try_record_changes(const Inputs& inputs, const TryOptions& options, std::vector<Tried>& to);

/// What was tried, and the swaps that the attributions have; `asked`: reruns were asked for.
std::string suggestions_section(const Inputs& inputs, const std::vector<Tried>& tried, bool asked);

}  // namespace opbound::report
