// The lines of a file of records as they stand, gzip undone where the file is compressed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace opbound {

/// Gives every line, without its newline and not yet read as a record, and its number from 1; the
/// text is gone after the call. Throws InputError with file and line if the file cannot be read, if
/// a line is above 1 MiB, and if the last one is torn (its run was killed while writing).
void for_each_line(const std::string& path,
                   const std::function<void(std::string_view text, long line)>& take);

}  // namespace opbound
