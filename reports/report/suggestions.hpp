// Changes of a run's settings whose effect was measured: by running it again with the change.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/report/inputs.hpp"

namespace opbound::report {

/// One change that was tried, and what it did to what the report found.
struct Tried {
  std::string change;     ///< a rule more of the policy: "op = \"matmul\", precision = \"fp32\""
  std::string of;         ///< the file, step and micro-batch
  std::string indicator;  ///< what is compared
  double before = 0, after = 0;
  std::string failure;  ///< why it could not be run; then there are no numbers

  bool is_better() const { return failure.empty() && after < before; }
};

struct TryOptions {
  int most = 3;                                     ///< reruns of each file of attributions
  std::function<void(const std::string&)> on_note;  ///< one line before each rerun
};

/// Of each file of attributions the micro-batch with the largest contributions: the run is run
/// again up to it, once for each of the ops that contribute most, with that op in fp32, or in fp64
/// where it was fp32 already. What could not be run says why.
std::vector<Tried> try_changes(const Inputs& inputs, const TryOptions& options);

/// What was tried, and the swaps that the attributions have; `asked`: reruns were asked for.
std::string suggestions_section(const Inputs& inputs, const std::vector<Tried>& tried, bool asked);

}  // namespace opbound::report
