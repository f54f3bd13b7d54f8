// What the commands share: finding suites, naming devices, being interrupted.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/provider.hpp"
#include "reports/verdict.hpp"
#include "suites/suite.hpp"

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

/// Why a provider cannot run here; empty if it can.
std::string why_absent(const Provider& provider);

/// Tells on standard error of everything that --require names and a run on `device` does not have;
/// true if there is any.
bool lacks_required(const std::vector<std::string>& required, const std::string& device,
                    const Provider& provider);

/// While one lives, SIGINT does not end the program but is noted; a second one ends it.
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
