// cuBLASLt as a plug-in for opbound: what opbound calls.
//
//   opbound run suites/matmul.toml --provider cublas
//
// Its settings are environment variables (settings.hpp), which every record holds.
#include <cublasLt.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/provider.h"
#include "ops/providers/cublas/check.hpp"
#include "ops/providers/cublas/matmul.hpp"
#include "ops/providers/cublas/settings.hpp"
#include "ops/providers/cublas/units.hpp"
#include "ops/providers/plugin_side.hpp"

namespace opbound::with_cublas {
namespace {

/// Read when the plug-in is opened, before any call.
const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

int run(const opbound_call* call, char* message, size_t message_size) {
  return guarded(message, message_size,
                 [&] { run(plan_of(*call, settings()), settings(), *call); });
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
Description describe() {
  static const std::string here = units_here();
  static const std::string either = "sequential|scales_first" + (here.empty() ? "" : "|" + here);
  Description d;
  d.name = "cublas";
  d.version = version_text(cublasLtGetVersion());
  d.run = run;
  // no supports(): what cuBLAS takes depends on addresses, which only run knows
  d.workspace_size = workspace_size;
  if (!here.empty()) d.algorithms.push_back({"matmul", nullptr, here.c_str()});
  d.algorithms.push_back({"matmul", nullptr, either.c_str()});
  d.environment = settings().entries();
  d.environment.insert(d.environment.begin(),
                       {"cublas cudart", runtime_text(cublasLtGetCudartVersion())});
  d.is_replayable = true;
  return d;
}

}  // namespace
}  // namespace opbound::with_cublas

extern "C" OPBOUND_EXPORT const opbound_provider* opbound_provider_v1() {
  using namespace opbound;
  return plugin_side::described<with_cublas::describe>();
}
