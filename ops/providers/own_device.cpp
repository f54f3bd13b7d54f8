// What stands for the device provider in a build without CUDA.
#ifndef OPBOUND_WITH_CUDA

#include "ops/provider.hpp"

namespace opbound {

std::unique_ptr<Provider> own_device_provider(int) {
  throw Unavailable("this opbound was built without CUDA");
}

}  // namespace opbound

#endif
