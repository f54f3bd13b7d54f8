// The device's side of a plug-in for CUDA: in the worker's process, which alone uses CUDA for it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/provider.hpp"

namespace opbound::detail {

class DeviceSide {
 public:
  DeviceSide() = default;
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;
  virtual ~DeviceSide() = default;

  virtual std::string name() const = 0;  ///< "NVIDIA H200"
  virtual std::vector<std::pair<std::string, std::string>> environment() const = 0;
  /// A cudaStream_t.
  virtual void* stream() const = 0;
  /// The device address of a copy of the memory.
  virtual std::byte* copy_there(std::span<const std::byte> memory) = 0;
  /// Waits for all work and copies everything back. Throws ProviderFailure with CUDA's reason.
  virtual void copy_back(std::span<std::byte> memory) = 0;
};

/// Device number `index`, which becomes the current one. Throws Unavailable where there is none, or
/// in a build without CUDA.
std::unique_ptr<DeviceSide> device_side(int index);

}  // namespace opbound::detail
