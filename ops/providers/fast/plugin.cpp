// This project's kernels for speed, as a plug-in: what opbound calls.
//
//   opbound run --device cuda --provider fast
#include <cuda_runtime_api.h>

#include <string>

#include "ops/providers/fast/kernels.hpp"
#include "ops/providers/plugin_side.hpp"

namespace opbound::fast {
namespace {

using plugin_side::Description;

const Kernels& all_kernels() {
  static const Kernels kernels = [] {
    Kernels all;
    for (const auto add :
         {add_elementwise, add_updates, add_layer_norm, add_cross_entropy, add_embedding})
      add(all);
    return all;
  }();
  return kernels;
}

const Kernel& kernel_of(const opbound_call& call) {
  const Kernel& kernel = plugin_side::kernel_for(all_kernels(), call);
  require(call.compute == OPBOUND_FP32, "it computes in fp32");
  return kernel;
}

int run(const opbound_call* call, char* message, size_t message_size) {
  return plugin_side::guarded(message, message_size,
                              [&] { kernel_of(*call).run(plugin_side::Call(*call)); });
}

/// What goes wrong here goes wrong in run(), which can say what it was.
size_t workspace_size(const opbound_call* call) {
  try {
    const Kernel& kernel = kernel_of(*call);
    return kernel.workspace == nullptr ? 0 : kernel.workspace(plugin_side::Call(*call));
  } catch (const std::exception&) {
    return 0;
  }
}

Description describe() {
  Description d;
  d.name = "fast";
  d.version = plugin_side::runtime_text(CUDART_VERSION);
  d.run = run;
  d.workspace_size = workspace_size;
  for (const Kernel& k : all_kernels()) d.algorithms.push_back({k.op, k.direction, k.variants});
  d.is_replayable = true;
  return d;
}

}  // namespace
}  // namespace opbound::fast

extern "C" OPBOUND_EXPORT const opbound_provider* opbound_provider_v1() {
  using namespace opbound;
  return plugin_side::described<fast::describe>();
}
