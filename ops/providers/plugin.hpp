// Plug-ins: shared libraries with the C interface of ops/provider.h, as providers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "ops/provider.hpp"

namespace opbound {

/// The file cannot be used as a plug-in: bad user input. `what` says what is wrong with it,
/// `expected` what would have been right.
struct NotAPlugin : std::runtime_error {
  NotAPlugin(const std::string& what, std::string wanted)
      : std::runtime_error(what), expected(std::move(wanted)) {}
  std::string expected;
};

struct PluginOptions {
  double seconds = 60;   ///< for each answer of the plug-in, its loading included
  int device = 0;        ///< number of the CUDA device that a plug-in for CUDA gets
  std::string called{};  ///< what records name it by, if not by its file
};

/// The plug-in in the file `path`, in a process of its own that goes with the provider. Throws
/// NotAPlugin. Make it before the calling process uses CUDA, which no process can after a fork.
///
/// `run` takes one call at a time. It throws Unavailable where the plug-in says that it has no such
/// kernel, and ProviderFailure where it fails, breaks, writes what is not its own or takes longer.
std::unique_ptr<Provider> plugin_provider(const std::string& path, const PluginOptions& options);

/// Where a plug-in in this process finds its tensors and puts its work.
struct PluginPlace {
  int device = 0;
  void* stream = nullptr;                               ///< a cudaStream_t
  std::function<void*(std::uint64_t bytes)> workspace;  ///< memory of the device, until the next
};

/// The plug-in for CUDA in the file `path`, in this process, on tensors that are on the device
/// already: for what runs many calls after each other, whose results stay there. Nothing guards
/// it: one that crashes ends the process, and what it writes elsewhere is not seen. Suites judge
/// the same file by `plugin_provider`. Throws NotAPlugin, also for one that is not for CUDA.
std::unique_ptr<Provider> plugin_in_process(const std::string& path, const PluginPlace& place,
                                            const std::string& called);

/// The entry of a record's environment that names a plug-in's file.
inline constexpr std::string_view plugin_file_key = "plugin";

}  // namespace opbound
