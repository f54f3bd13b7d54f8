// What check_collective found, a row for each collective, precision and order.
#pragma once

#include <span>
#include <string>

#include "reports/record.hpp"
#include "reports/table.hpp"

namespace opbound {

/// In each check's column: yes; no (promised and not kept); differs, same (not promised); empty
/// where it was not asked. Below: what is not kept, where NaN came from, and the counts.
std::string checks_table(std::span<const Record> records, const Terminal& terminal);

}  // namespace opbound
