// An opened plug-in, in its worker's process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/provider.h"
#include "ops/providers/plugin_call.hpp"
#include "ops/providers/plugin_device.hpp"
#include "ops/providers/plugin_process.hpp"

namespace opbound::detail {

class PluginLibrary {
 public:
  /// Opens the library and reads what it says of itself. Throws NotAPlugin.
  explicit PluginLibrary(const PluginSetup& setup);

  bool is_for_cuda() const { return provider_.device == OPBOUND_CUDA; }
  bool is_replayable() const { return provider_.is_replayable != 0; }

  /// What it says of itself, as `split` takes it apart and plugin.cpp reads it.
  std::vector<std::string> description() const;

  /// Step::support and Step::run on the shared memory.
  Answer support(const Request& request) const;
  Answer run(const Request& request, std::span<std::byte> memory) const;

  /// In this process: the call's tensors stay where they are, and its work is started in the
  /// stream. `workspace` gives the bytes that the plug-in asks for.
  using Workspace = std::function<void*(std::uint64_t bytes)>;
  Answer start(Request request, std::span<const TensorView> views, void* stream,
               const Workspace& workspace) const;

 private:
  /// What stands in the way of every call; empty if nothing does.
  Answer obstacle() const;
  /// The workspace's bytes as text, or why there is no such kernel.
  Answer asked(PluginCall& call) const;
  Answer called(PluginCall& call) const;

  opbound_provider provider_{};
  std::unique_ptr<DeviceSide> device_;  ///< of a plug-in for CUDA, where there is one
  std::string why_no_device_;
  std::string mode_changes_;  ///< what loading it did to the processor's mode
  int device_index_ = 0;
};

}  // namespace opbound::detail
