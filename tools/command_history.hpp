// What the commands that use the history share.
#pragma once

#include <memory>
#include <string>

#include "reports/run_store.hpp"

namespace CLI {
class App;
}

namespace opbound {

/// Adds --store to a command.
void add_store(CLI::App& command, std::string& store);

/// The history that --store names, else the default one, which has to be there.
RunStore existing_store(const std::string& store);

/// Throws InputError, with the nearest of the history's names, if it has no run of this name.
void require_run(RunStore& store, const std::string& name);

}  // namespace opbound
