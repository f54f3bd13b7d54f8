// The parts of a report that tell what else was given: courses of training runs, alarms, planted
// faults, claims, where everything ran.
#pragma once

#include <string>

#include "reports/report/inputs.hpp"
#include "reports/report/traces.hpp"

namespace opbound::report {

/// Losses and norms as curves, and how each run ended.
std::string training_section(const Inputs& inputs, const Traces& traces);
/// What a sentinel said while a run went on.
std::string alarms_section(const Traces& traces);
/// What finds which fault, of operators and of runs.
std::string faults_section(const Inputs& inputs);
std::string claims_section(const Inputs& inputs);
/// Every fact that a record, log or trace has of its environment, and how many say so.
std::string environment_section(const Inputs& inputs, const Traces& traces);
/// The files that the page was made of.
std::string sources_section(const Inputs& inputs, const Traces& traces);

}  // namespace opbound::report
