// Every op against what is known of it: its bound, its tests, its place in the run.
#pragma once

#include <string>

#include "reports/report/indicators.hpp"

namespace opbound::report {

/// A row for each op and pass of the program's table; no cell is empty: what did not run says which
/// command runs it.
std::string matrix_section(const Material& material);

}  // namespace opbound::report
