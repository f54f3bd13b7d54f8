// What the commands share: finding suites, naming devices, being interrupted.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/provider.hpp"
#include "ops/providers/plugin.hpp"
#include "reports/record.hpp"
#include "suites/suite.hpp"

namespace CLI {
class App;
}

namespace opbound {

/// To standard output, which main checks at the end.
void print(std::string_view text);

/// All .toml files of a folder, sorted. An empty `folder` stands for suites/ in the current folder,
/// else beside the program or in a folder above it. InputError if there are none.
std::vector<std::string> suite_files(const std::string& folder);

/// The file of this name in the folder that `suite_files` takes where none is named; empty if there
/// is none.
std::string suite_file_named(const std::string& name);

/// The own provider on "cpu", "cuda" or "cuda:N". Where the device is absent, one that says why and
/// for which every check is skipped. InputError for any other name.
std::unique_ptr<Provider> own_provider(const std::string& device);

/// The same for what has nothing to do where the device is absent: InputError then too, with why.
std::unique_ptr<Provider> present_provider(const std::string& device);

/// The plug-in of a file, or one of this project's by its name, "torch", whose file is beside the
/// program; if it was not built, one that says so and for which every check is skipped. `device`
/// says which CUDA device it gets if it is for one, `seconds` how long each of its answers may
/// take. InputError for anything else.
std::unique_ptr<Provider> named_plugin(const std::string& name, const std::string& device,
                                       double seconds = PluginOptions{}.seconds);

using Providers = std::vector<std::unique_ptr<Provider>>;

/// The same for what a policy, or the spec in a log, names. Files are data: they name plug-ins of
/// this project, and other plug-ins' files only where the variable OPBOUND_PLUGINS lists them as
/// they are named, with ':' between two. InputError for any other file, whose code would run.
/// In this process where it has a place there.
std::unique_ptr<Provider> plugin_of_policy(const std::string& name, const std::string& device,
                                           const std::optional<PluginPlace>& place);

/// Whose kernels a command runs, and where: --provider, --provider-timeout, --device.
struct ProviderOptions {
  std::vector<std::string> names{"own"};
  double seconds = PluginOptions{}.seconds;
  std::string device = "cpu";

  /// `this` has to live as long as the command.
  void add_to(CLI::App& command);
};

/// What --provider names: "own", or what `named_plugin` takes. InputError for anything else.
Providers named_providers(const ProviderOptions& options);

/// Tells on standard error of everything that --require names and a run on `device` does not have;
/// true if there is any. Asked before anything runs: the exit code is `exit_missing` then. Ranks of
/// a run but the first do not tell.
bool lacks_required(const std::vector<std::string>& required, const std::string& device,
                    std::span<const std::unique_ptr<Provider>> providers, bool tells = true);

/// Prints the records' error table, or where `quiet` its last line; gives the exit code.
int tell(const std::vector<Record>& records, bool quiet);

/// The version and the command line but for the program's own path: ranks of one run have it alike.
std::string words_of_program();

/// Checks an option: a seed, 0 to 2^63 - 1, as suites, records and training files hold it.
std::function<std::string(const std::string&)> seed_number();

/// Checks an option: numbers from low to high; NaN is none of them.
std::function<std::string(const std::string&)> between(double low, double high);

/// While one lives, SIGINT, SIGTERM and SIGHUP do not end the program but are noted; the same one
/// again ends it.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  static bool has_come();
};

inline constexpr int exit_interrupted = 130;  // 128 + SIGINT, as a shell says it

}  // namespace opbound
