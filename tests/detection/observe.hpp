// A kernel's run as the detection table takes it: opbound's verdict, and each output beside what is
// right, for the rules of others.
#pragma once

#include <string>
#include <vector>

#include "ops/provider.hpp"
#include "reports/record.hpp"
#include "reports/rivals.hpp"
#include "suites/prepare.hpp"
#include "suites/suite.hpp"

namespace opbound::detection {

struct Observation {
  CaseSpec spec;
  Prepared prepared;  ///< holds what the kernel gave
  std::vector<RivalOutput> outputs;

  Verdict verdict = Verdict::within;
  std::string found_by;  ///< the first output that exceeds, or the check
  double ratio = 0;      ///< the largest
  ElementCounts counts;  ///< of all outputs

  RivalCase rival_case() const { return {spec.op, &prepared.call, spec.precision}; }
};

/// The exact value rounded once to the format, NaN where that has no infinity and none is meant.
double rounded_once(const Format& format, const Exact& exact);

/// Runs the kernel on tensors that are prepared and judges it by the contract that the provider
/// declares of this case.
Observation observe(CaseSpec spec, const Provider& provider, Prepared prepared);

/// Judges the outputs that `seen.prepared` holds.
void judge_outputs(Observation& seen, const Contract& contract);

}  // namespace opbound::detection
