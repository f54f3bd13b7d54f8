// cuDNN as a plug-in for opbound: what opbound calls.
//
//   LD_LIBRARY_PATH=<folder of libcudnn.so.9> opbound run --device cuda --provider cudnn
#include <cudnn_frontend_version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ops/provider.h"
#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/library.hpp"

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

/// Is `word` one of those that stand between `|` in `list`?
bool lists(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find('|', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

const Kernel& kernel_for(const opbound_call& call) {
  for (const Kernel& k : all_kernels())
    if (std::strcmp(k.op, call.op) == 0 && lists(k.variants, call.variant) &&
        (k.direction == nullptr || std::strcmp(k.direction, call.direction) == 0))
      return k;
  throw Unsupported(std::string("no kernel for ") + call.op + " " + call.direction);
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
  const Kernel& kernel = kernel_for(call);
  require_compute(call, kernel);
  return kernel;
}

int refused(int status, const char* why, char* message, std::size_t size) {
  std::snprintf(message, size, "%s", why);
  return status;
}

int run(const opbound_call* call, char* message, size_t message_size) {
  try {
    const Kernel& kernel = ready_kernel(*call);
    if (kernel.run != nullptr)
      kernel.run(Call(*call));
    else
      execute(Call(*call), kernel);
    return OPBOUND_OK;
  } catch (const Unsupported& e) {
    return refused(OPBOUND_UNSUPPORTED, e.what(), message, message_size);
  } catch (const std::exception& e) {
    return refused(OPBOUND_FAILED, e.what(), message, message_size);
  }
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

struct Description {
  std::vector<opbound_algorithm> algorithms;
  /// Attention may take the processor's ex2.approx.f32 as it is, whose relative error is at most
  /// 2^-22 (PTX ISA): 4 units in the last place of a number just below a power of two, and half a
  /// unit more from the correctly rounded result. exp2f is no better documented than 2.
  std::vector<opbound_function_error> functions{{"exp2", 4.5}};
  std::string frontend = std::to_string(CUDNN_FRONTEND_MAJOR_VERSION) + "." +
                         std::to_string(CUDNN_FRONTEND_MINOR_VERSION) + "." +
                         std::to_string(CUDNN_FRONTEND_PATCH_VERSION);
  /// The driver and opbound's own runtime are in every record of a device.
  std::vector<opbound_environment> environment{
      {"cudnn", Library::get().version().c_str()},
      {"cudnn runtime", Library::get().runtime().c_str()},
      {"cudnn frontend", frontend.c_str()},
      {"cudnn deterministic", is_deterministic() ? "true" : "false"}};
  opbound_provider provider{};

  Description() {
    for (const Kernel& k : all_kernels()) algorithms.push_back({k.op, k.direction, k.variants});
    provider.struct_size = sizeof provider;
    provider.abi_version = OPBOUND_ABI_VERSION;
    provider.device = OPBOUND_CUDA;
    provider.name = "cudnn";
    provider.version = Library::get().version().c_str();
    provider.run = run;
    provider.workspace_size = workspace_size;
    provider.algorithm_count = algorithms.size();
    provider.algorithms = algorithms.data();
    provider.function_count = functions.size();
    provider.functions = functions.data();
    provider.environment_count = environment.size();
    provider.environment = environment.data();
  }
};

}  // namespace
}  // namespace opbound::with_cudnn

extern "C" const opbound_provider* opbound_provider_v1() {
  static const opbound::with_cudnn::Description description;
  return &description.provider;
}
