// Work that may die, in a process of its own.
#pragma once

#include <functional>

namespace opbound {

/// Calls work() in a child of this process, which takes nobody with it when it dies. Gives its exit
/// code, or 128 and the number of the signal that ended it.
int in_child(const std::function<int()>& work);

}  // namespace opbound
