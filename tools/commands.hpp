// The commands of the program `opbound`, one in each command_<name>.cpp.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace opbound {

/// What main does once the command line has been read; gives the exit code.
using Action = std::function<int()>;

/// Each adds its command to the command line; where the user names it, `chosen` becomes its action.
/// Actions throw InputError for bad input.
void add_run(CLI::App& program, Action& chosen);
void add_list(CLI::App& program, Action& chosen);
void add_table(CLI::App& program, Action& chosen);
void add_explain(CLI::App& program, Action& chosen);
void add_check(CLI::App& program, Action& chosen);
void add_reveal(CLI::App& program, Action& chosen);
void add_sweep(CLI::App& program, Action& chosen);
void add_functions(CLI::App& program, Action& chosen);
void add_history(CLI::App& program, Action& chosen);
void add_diff(CLI::App& program, Action& chosen);
void add_collective(CLI::App& program, Action& chosen);
void add_train(CLI::App& program, Action& chosen);
void add_attribute(CLI::App& program, Action& chosen);
void add_trace(CLI::App& program, Action& chosen);
void add_sentinel(CLI::App& program, Action& chosen);
void add_claims(CLI::App& program, Action& chosen);
void add_env(CLI::App& program, Action& chosen);
void add_power(CLI::App& program, Action& chosen);
void add_serve(CLI::App& program, Action& chosen);
void add_report(CLI::App& program, Action& chosen);

}  // namespace opbound
