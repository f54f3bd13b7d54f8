// The table of `opbound functions`: what was measured beside what is documented and published.
#pragma once

#include <span>
#include <string>

#include "reports/table.hpp"

namespace opbound {

/// A row for each function and each conversion that was measured; Markdown or for a terminal.
std::string functions_table(std::span<const Record> records, const TableOptions& options);

}  // namespace opbound
