// A call's tensors on the current device.
#pragma once

#include <map>
#include <span>

#include "ops/cuda.hpp"
#include "ops/op.hpp"

namespace opbound::cuda {

/// Copies of the host memory that a call's views point to, each once: saved tensors are shared by
/// two passes.
class DeviceCall {
 public:
  explicit DeviceCall(const Call& host) : call_(host) {
    bind(call_.forward);
    bind(call_.backward);
  }
  /// The same call on device addresses.
  const Call& call() const { return call_; }

  void copy_back(std::span<const TensorView> host_views) const {
    for (const TensorView& v : host_views) copies_.at(v.data).copy_to_host(v.data);
  }

 private:
  void bind(std::vector<TensorView>& views) {
    for (TensorView& v : views) {
      const auto bytes = static_cast<std::size_t>(v.extent() * bytes_of(v.element));
      const auto [place, is_new] = copies_.try_emplace(v.data, bytes);
      if (is_new) place->second.copy_from_host(v.data);
      v.data = place->second.data();
    }
  }

  Call call_;
  std::map<void*, Memory> copies_;
};

}  // namespace opbound::cuda
