// From a record back to the check that made it.
#pragma once

#include <string>

#include "reports/record.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// Everything but the op that tells a check from the others of a suite, in one line: "forward
/// bf16:fp32:bf16 approximate=none erfc n=65536 x=every_pattern seed=1".
std::string identity(const CaseSpec& spec);

/// The check that a record of run_case tells of. InputError where the record does not say enough:
/// an op, attribute, variant or input that this program does not know.
CaseSpec spec_of(const Record& record);

/// The check alone as the text of a suite.
std::string suite_text(const CaseSpec& spec);

}  // namespace opbound
