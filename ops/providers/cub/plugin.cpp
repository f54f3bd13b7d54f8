// CUB's segmented sum as a plug-in for opbound: what opbound calls.
//
//   opbound run suites/segmented_sum.toml ops/providers/cub/segmented_sum.toml --device cuda
//       --provider cub
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "ops/provider.h"
#include "ops/providers/cub/segmented_sum.hpp"

namespace opbound::with_cub {
namespace {

void require(bool holds, const char* why_not) {
  if (!holds) throw Unsupported(why_not);
}

/// CUB adds items of one type; a transforming iterator makes fp32 of a narrower one, and rounds.
bool can_add(const Problem& p) {
  const auto is_narrow = [](int e) { return e == OPBOUND_BF16 || e == OPBOUND_FP16; };
  const int x = p.x->element, y = p.y->element;
  if (p.compute == OPBOUND_FP32)
    return (x == OPBOUND_FP32 || is_narrow(x)) && (y == OPBOUND_FP32 || is_narrow(y));
  return (p.compute == OPBOUND_FP64 || is_narrow(p.compute)) && x == p.compute && y == p.compute;
}

/// Throws Unsupported for what is no segmented sum of CUB's.
Problem problem_of(const opbound_call& call) {
  require(std::strcmp(call.op, "segmented_sum") == 0, "it has segmented_sum only");
  require(std::strcmp(call.direction, "forward") == 0,
          "a row's gradient is gathered from its segments, which is no segmented sum");
  Problem p{};
  p.x = opbound_tensor_named(&call, "x");
  p.ids = opbound_tensor_named(&call, "ids");
  p.offsets = opbound_tensor_named(&call, "offsets");
  p.y = opbound_tensor_named(&call, "y");
  require(p.x != nullptr && p.y != nullptr && (p.ids != nullptr) != (p.offsets != nullptr),
          "it wants x, y, and ids or offsets");
  p.rows = p.x->size[0];
  p.width = p.x->size[1];
  p.segments = p.y->size[0];
  p.compute = call.compute;
  p.stream = static_cast<cudaStream_t>(call.stream);
  p.workspace = call.workspace;
  p.workspace_size = call.workspace_size;
  require(can_add(p), "its items, sums and results have one format, or are added in fp32");
  return p;
}

int told(int status, const char* why, char* message, std::size_t size) {
  std::snprintf(message, size, "%s", why);
  return status;
}

template <class F>
int guarded(char* message, std::size_t size, F call) {
  try {
    call();
    return OPBOUND_OK;
  } catch (const Unsupported& e) {
    return told(OPBOUND_UNSUPPORTED, e.what(), message, size);
  } catch (const std::exception& e) {
    return told(OPBOUND_FAILED, e.what(), message, size);
  }
}

int supports(const opbound_call* call, char* message, size_t size) {
  return guarded(message, size, [&] { problem_of(*call); });
}

int run(const opbound_call* call, char* message, size_t size) {
  return guarded(message, size, [&] {
    const Problem p = problem_of(*call);
    if (p.workspace_size < workspace_bytes(p)) throw std::runtime_error("too small a workspace");
    add_segments(p);
  });
}

size_t workspace_size(const opbound_call* call) {
  try {
    return workspace_bytes(problem_of(*call));
  } catch (const std::exception&) {
    return 0;  // run says it, in words
  }
}

/// A sum of any order: which one CUB takes depends on the device and the version.
struct Description {
  std::string runtime =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  std::array<opbound_algorithm, 1> algorithms{{{"segmented_sum", nullptr, nullptr}}};
  std::array<opbound_environment, 2> environment{
      {{"cub cccl", cccl_version()}, {"cub cudart", runtime.c_str()}}};
  opbound_provider provider{};

  Description() {
    provider.struct_size = sizeof provider;
    provider.abi_version = OPBOUND_ABI_VERSION;
    provider.device = OPBOUND_CUDA;
    provider.name = "cub";
    provider.version = cccl_version();
    provider.run = run;
    provider.supports = supports;
    provider.workspace_size = workspace_size;
    provider.algorithm_count = algorithms.size();
    provider.algorithms = algorithms.data();
    provider.environment_count = environment.size();
    provider.environment = environment.data();
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() = default;
};

}  // namespace
}  // namespace opbound::with_cub

extern "C" OPBOUND_EXPORT const opbound_provider* opbound_provider_v1() {
  try {
    static const opbound::with_cub::Description description;
    return &description.provider;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cub: %s\n", e.what());
    return nullptr;
  }
}
