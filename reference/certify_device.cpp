// What stands for judging on a device in a build without CUDA.
#ifndef OPBOUND_WITH_CUDA

#include "reference/certify_device.hpp"

namespace opbound {

std::vector<OutputCheck> certify_on_device(const Provider&, const Op&, const Call&,
                                           const BoundArrays&) {
  throw Unavailable("this opbound was built without CUDA");
}

std::vector<FirstRung> first_rung_on_device(const Op&, const Call&, const BoundArrays&) {
  throw Unavailable("this opbound was built without CUDA");
}

std::optional<QuickCheck> quick_check_on(const Provider&, const Op&, const Call&, std::uint64_t) {
  throw Unavailable("this opbound was built without CUDA");
}

}  // namespace opbound

#endif
