// Other files of lines that opbound writes, told from files of records by their first line.
#pragma once

#include <string>
#include <string_view>

namespace opbound {

/// Throws InputError if this first line of a file is that of a training log, of attributions, of
/// claims or of sentinel results: a reader of records would only say that a field of it is wrong.
void refuse_other_lines(std::string_view first_line, const std::string& path);

}  // namespace opbound
