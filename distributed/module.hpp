// Modules of the program that are opened where they are asked for: MPI, NCCL.
#pragma once

#include <string>

namespace opbound {

/// The function of this name in a module that is beside the program or in the folder above it. Its
/// symbols are open to the libraries that it opens in turn. Throws Unavailable, beginning with
/// `what`, where there is no such module or one of its libraries is missing.
void* open_module(const std::string& what, const std::string& file, const char* function);

}  // namespace opbound
