// Where the suites are if nobody says.
#pragma once

#include <filesystem>

namespace opbound {

/// The folder of this program.
std::filesystem::path program_folder();

/// The folder suites/ in the current folder, else beside the program or in a folder above it: the
/// first that holds `part`, a path in it. Empty if there is none.
std::filesystem::path suites_folder(const std::filesystem::path& part = {});

}  // namespace opbound
