// cuBLASLt as a plug-in for opbound: what opbound calls.
//
//   opbound run suites/matmul.toml --provider cublas
//
// Its settings are environment variables (settings.hpp), which every record holds.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "ops/provider.h"
#include "ops/providers/cublas/check.hpp"
#include "ops/providers/cublas/matmul.hpp"
#include "ops/providers/cublas/settings.hpp"

namespace opbound::with_cublas {
namespace {

/// Read when the plug-in is opened, before any call.
const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

/// The variant of matmul that a device's matrix units are. Turing's have not been measured as
/// Volta's and Ampere's have: it is one of the two, and the larger bound judges.
const char* unit_of(int major, int minor) {
  if (major < 7) return "";
  if (major == 7) return minor < 5 ? "volta" : "volta|ampere";
  if (major == 8) return minor == 9 ? "ada" : "ampere";
  return major == 9 ? "hopper" : "blackwell";
}

/// Those of the machine, "hopper" on most. opbound says which device it is only after the plug-in
/// has said what it is: where there are several generations, it is any of them.
std::string units_here() {
  std::string all;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;  // opbound says why
  for (int device = 0; device < count; ++device) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
      continue;
    const std::string unit = unit_of(major, minor);
    if (!unit.empty() && all.find(unit) == std::string::npos)
      all += (all.empty() ? "" : "|") + unit;
  }
  return count == 0 ? "hopper" : all;
}

std::string version_text(std::size_t v) {  // 130100 -> 13.1.0
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

std::string runtime_text(std::size_t v) {  // 13000 -> 13.0
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

int refused(int status, const char* why, char* message, std::size_t size) {
  std::snprintf(message, size, "%s", why);
  return status;
}

int run(const opbound_call* call, char* message, size_t message_size) {
  try {
    run(plan_of(*call, settings()), settings(), *call);
    return OPBOUND_OK;
  } catch (const Unsupported& e) {
    return refused(OPBOUND_UNSUPPORTED, e.what(), message, message_size);
  } catch (const std::exception& e) {
    return refused(OPBOUND_FAILED, e.what(), message, message_size);
  }
}

/// The call as if its tensors lay somewhere: inputs one element behind an aligned address, or all
/// of them aligned. Nobody reads what is there.
class Placed {
 public:
  Placed(const opbound_call& call, bool is_aligned) : call_(call) {
    alignas(256) static unsigned char somewhere[256];
    for (std::size_t i = 0; i < call.tensor_count; ++i) tensors_.push_back(*call.tensors[i]);
    for (opbound_tensor& t : tensors_) {
      const bool moves = !is_aligned && t.role == OPBOUND_IN;
      t.data = somewhere + (moves ? bytes_of(type_of(t.element)) : 0);
    }
    for (const opbound_tensor& t : tensors_) list_.push_back(&t);
    call_.tensors = list_.data();
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() = default;

  const opbound_call& call() const { return call_; }

 private:
  std::vector<opbound_tensor> tensors_;
  std::vector<const opbound_tensor*> list_;
  opbound_call call_;
};

/// Asked before the tensors have their places, on which the algorithm depends. Where it turns out
/// to want more, run takes one that gets along with what there is.
size_t workspace_size(const opbound_call* call) {
  size_t most = 0;
  for (const bool is_aligned : {true, false}) {
    try {
      const Placed placed(*call, is_aligned);
      most = std::max(most, workspace_bytes(plan_of(placed.call(), settings()), settings()));
    } catch (const std::exception&) {
      continue;  // run says it, in words
    }
  }
  return most;
}

/// What a kernel's algorithm is. Where the case is about matrix units, nothing else may run; else
/// sums are made by matrix units or by multiply-adds, as cuBLAS likes, and the larger bound judges.
/// fp32 is no matrix unit's unless it is one of the former. A split sum is a sum in some order.
struct Description {
  std::string version = version_text(cublasLtGetVersion());
  std::string runtime = runtime_text(cublasLtGetCudartVersion());
  std::string units = units_here();
  std::string either = "sequential|scales_first" + (units.empty() ? "" : "|" + units);
  std::vector<opbound_algorithm> algorithms;
  std::vector<std::pair<std::string, std::string>> entries = settings().entries();
  std::vector<opbound_environment> environment;
  opbound_provider provider{};

  Description() {
    if (!units.empty()) algorithms.push_back({"matmul", nullptr, units.c_str()});
    algorithms.push_back({"matmul", nullptr, either.c_str()});
    environment.push_back({"cublas cudart", runtime.c_str()});
    for (const auto& [name, value] : entries) environment.push_back({name.c_str(), value.c_str()});
    provider.struct_size = sizeof provider;
    provider.abi_version = OPBOUND_ABI_VERSION;
    provider.device = OPBOUND_CUDA;
    provider.name = "cublas";
    provider.version = version.c_str();
    provider.run = run;
    // no supports(): what cuBLAS takes depends on addresses, which only run knows
    provider.workspace_size = workspace_size;
    provider.algorithm_count = algorithms.size();
    provider.algorithms = algorithms.data();
    provider.environment_count = environment.size();
    provider.environment = environment.data();
  }
};

}  // namespace
}  // namespace opbound::with_cublas

extern "C" OPBOUND_EXPORT const opbound_provider* opbound_provider_v1() {
  try {
    static const opbound::with_cublas::Description description;
    return &description.provider;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cublas: %s\n", e.what());
    return nullptr;
  }
}
