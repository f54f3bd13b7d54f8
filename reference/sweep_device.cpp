// What stands for sweeps on a device in a build without CUDA.
#ifndef OPBOUND_WITH_CUDA

#include "reference/sweep_device.hpp"

#include "ops/provider.hpp"

namespace opbound {

FirstRung sweep_on_device(const Op&, const Sweep&, int, std::int64_t, const SweepProgress&) {
  throw Unavailable("this opbound was built without CUDA");
}

}  // namespace opbound

#endif
