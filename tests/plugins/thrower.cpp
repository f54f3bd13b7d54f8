// A plug-in in C++ whose kernel throws, through the C interface.
#include <stdexcept>

#include "ops/provider.h"

namespace {

int run(const opbound_call* call, char*, size_t) {
  if (call->tensor_count > 0) throw std::runtime_error("thrown on purpose");
  return OPBOUND_OK;
}

}  // namespace

extern "C" const opbound_provider* opbound_provider_v1() {
  static opbound_provider provider{};
  provider.struct_size = sizeof provider;
  provider.abi_version = OPBOUND_ABI_VERSION;
  provider.name = "thrower";
  provider.run = run;
  return &provider;
}
