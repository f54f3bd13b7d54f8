// How the check of a record is run again: as command lines to paste, or as a suite of its own.
#pragma once

#include <string>

#include "reports/record.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// Was it made by `opbound check`, of outputs in files?
bool is_stored(const Record& record);
/// The plug-in's file, as the run named it; empty where the kernel is no plug-in's.
std::string plugin_of(const Record& record);
/// What that kernel was judged by: --order any, own or a file's name; --functions cuda.
std::string judged_order(const Record& record);
bool has_cuda_functions(const Record& record);

/// Was it made by `opbound sweep`? Its inputs are no suite's: it is made again as a sweep.
bool is_sweep(const Record& record);

/// The command that runs precisely this check, where its suite is found and still has the case; and
/// the check alone as a suite. `spec` is the record's.
std::string again_text(const Record& record, const CaseSpec& spec);

/// Was it made by `opbound collective`? The command that makes all checks of its case again:
/// engine, ranks, order, elements, and what the simulation did to them.
bool is_collective(const Record& record);
std::string collective_again_text(const Record& record);

/// The same for a sweep's record.
std::string sweep_again_text(const Record& record);

/// A word as a shell reads it back.
std::string shell_word(const std::string& text);

}  // namespace opbound
