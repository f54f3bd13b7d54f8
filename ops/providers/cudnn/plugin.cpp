// cuDNN as a plug-in for opbound: what opbound calls.
//
//   LD_LIBRARY_PATH=<folder of libcudnn.so.9> opbound run --device cuda --provider cudnn
#include <cudnn_frontend_version.h>

#include <string>

#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/library.hpp"
#include "ops/providers/plugin_side.hpp"

namespace opbound::with_cudnn {
namespace {

const Kernels& all_kernels() {
  static const Kernels kernels = [] {
    Kernels all;
    for (const auto add : {add_softmax, add_normalization, add_activations, add_attention})
      add(all);
    return all;
  }();
  return kernels;
}

/// The format of the call's first tensor, which is one of numbers in every op here.
int stored_format(const opbound_call& call) { return call.tensors[0]->element; }

/// fp32 and 16 bits are computed in fp32.
void require_compute(const opbound_call& call, const Kernel& kernel) {
  const int stored = stored_format(call);
  require(stored != OPBOUND_FP64 || kernel.takes_fp64,
          "its " + std::string(call.op) + " has no fp64");
  const int used = is_narrow(stored) ? OPBOUND_FP32 : stored;
  require(call.compute == used,
          "it computes " + name_of(stored) + " in " + name_of(used) + ", nothing else");
}

/// The kernel of a call; Unsupported if there is none, or no library.
const Kernel& ready_kernel(const opbound_call& call) {
  const std::string& absence = Library::get().absence();
  require(absence.empty(), absence);
  const Kernel& kernel = kernel_for(all_kernels(), call);
  require_compute(call, kernel);
  return kernel;
}

int run(const opbound_call* call, char* message, size_t message_size) {
  return guarded(message, message_size, [&] {
    const Kernel& kernel = ready_kernel(*call);
    if (kernel.run != nullptr)
      kernel.run(Call(*call));
    else
      execute(Call(*call), kernel);
  });
}

/// What goes wrong here goes wrong in run(), which can say what it was.
std::size_t workspace_size(const opbound_call* call) {
  try {
    const Kernel& kernel = ready_kernel(*call);
    return kernel.describe == nullptr ? 0 : workspace_of(Call(*call), kernel);
  } catch (const std::exception&) {
    return 0;
  }
}

Description describe() {
  Description d;
  d.name = "cudnn";
  d.version = Library::get().version();
  d.run = run;
  d.workspace_size = workspace_size;
  for (const Kernel& k : all_kernels()) d.algorithms.push_back({k.op, k.direction, k.variants});
  // Attention may take the processor's ex2.approx.f32 as it is, whose relative error is at most
  // 2^-22 (PTX ISA): 4 units in the last place of a number just below a power of two, and half a
  // unit more from the correctly rounded result. exp2f is no better documented than 2.
  d.functions = {{"exp2", 4.5}};
  // The driver and opbound's own runtime are in every record of a device.
  d.environment = {{"cudnn", Library::get().version()},
                   {"cudnn runtime", Library::get().runtime()},
                   {"cudnn frontend", std::to_string(CUDNN_FRONTEND_MAJOR_VERSION) + "." +
                                          std::to_string(CUDNN_FRONTEND_MINOR_VERSION) + "." +
                                          std::to_string(CUDNN_FRONTEND_PATCH_VERSION)},
                   {"cudnn deterministic", is_deterministic() ? "true" : "false"}};
  d.is_replayable = true;
  return d;
}

}  // namespace
}  // namespace opbound::with_cudnn

extern "C" OPBOUND_EXPORT const opbound_provider* opbound_provider_v1() {
  using namespace opbound;
  return plugin_side::described<with_cudnn::describe>();
}
