// What stands for the device's sums in a build without CUDA.
#ifndef OPBOUND_WITH_CUDA

#include "distributed/trace/device_sums.hpp"

#include "ops/provider.hpp"

namespace opbound::trace {

std::unique_ptr<DeviceSums> device_sums(const std::vector<SummedPart>&) {
  throw Unavailable("this opbound was built without CUDA");
}

}  // namespace opbound::trace

#endif
