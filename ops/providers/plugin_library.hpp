// An opened plug-in, in its worker's process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/provider.h"
#include "ops/providers/plugin_device.hpp"
#include "ops/providers/plugin_process.hpp"

namespace opbound::detail {

class PluginLibrary {
 public:
  /// Opens the library and reads what it says of itself. Throws NotAPlugin.
  explicit PluginLibrary(const PluginSetup& setup);

  /// What it says of itself, as `split` takes it apart and plugin.cpp reads it.
  std::vector<std::string> description() const;

  /// Step::support and Step::run on the shared memory.
  Answer support(const Request& request) const;
  Answer run(const Request& request, std::span<std::byte> memory) const;

 private:
  /// What stands in the way of every call; empty if nothing does.
  Answer obstacle() const;

  opbound_provider provider_{};
  std::unique_ptr<DeviceSide> device_;  ///< of a plug-in for CUDA, where there is one
  std::string why_no_device_;
  std::string mode_changes_;  ///< what loading it did to the processor's mode
  int device_index_ = 0;
};

}  // namespace opbound::detail
