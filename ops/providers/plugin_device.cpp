// What stands for the device's side in a build without CUDA.
#ifndef OPBOUND_WITH_CUDA

#include "ops/providers/plugin_device.hpp"

namespace opbound::detail {

std::unique_ptr<DeviceSide> device_side(int) {
  throw Unavailable("it is for CUDA, and this opbound was built without");
}

}  // namespace opbound::detail

#endif
