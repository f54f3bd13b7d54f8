// The sums of fingerprint.hpp where the gradient is: on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "distributed/trace/fingerprint.hpp"

namespace opbound::trace {

/// A part of a parameter: elements [first, first + count) of it, from element `offset` of an array.
struct SummedPart {
  std::uint64_t key = 0;  ///< sketch_key
  std::int64_t first = 0, count = 0, offset = 0;
};

/// Of the parts of one fp32 array after the other, each time anew.
class DeviceSums {
 public:
  DeviceSums() = default;
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;
  virtual ~DeviceSums() = default;

  /// Starts them, behind what the stream was given so far and beside what it is given next. `array`
  /// is on the current device and stays as it is until `finish`. Throws ProviderFailure.
  virtual void start(const std::byte* array, void* stream) = 0;
  /// Waits for them: the bits of sums_of for each part, in their order.
  virtual std::vector<GradientSums> finish() = 0;
};

/// On the current device. Throws Unavailable in a build without CUDA.
std::unique_ptr<DeviceSums> device_sums(const std::vector<SummedPart>& parts);

}  // namespace opbound::trace
