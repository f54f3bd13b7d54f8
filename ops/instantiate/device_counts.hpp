// What a team counts beside a tally, on the device.
#pragma once

#include "bounds/tally.hpp"

namespace opbound::detail {

/// Errors by their size, and which elements are open. Nearly all errors are in the first entries,
/// which each lane counts for itself: lanes that add to one number wait for each other. The rest is
/// counted in shared memory until the team is done.
class DeviceCounts {
 public:
  using Counter = unsigned long long;  // what atomicAdd takes
  static_assert(sizeof(Counter) == sizeof(std::uint64_t));
  using Shared = unsigned[UlpHistogram::most_entries];  // 64 bits would be a loop each

  __device__ DeviceCounts(Shared& shared, const TallyResult& to) : shared_(shared), to_(to) {
    for (std::size_t k = threadIdx.x; k < UlpHistogram::most_entries; k += blockDim.x)
      shared[k] = 0;
    __syncthreads();
  }

  __device__ void decided(double error) const {
    const std::size_t entry = UlpHistogram::entry_of(error);
    for (std::size_t k = 0; k < first_entries; ++k) first_[k] += entry == k ? 1 : 0;
    if (entry >= first_entries) atomicAdd(&shared_[entry], 1U);
  }
  __device__ void open(std::int64_t index) const {
    const Counter place = atomicAdd(reinterpret_cast<Counter*>(to_.open_count), Counter{1});
    if (place < to_.open_room) to_.open[place] = index;
  }

  /// Called by all lanes at the end.
  __device__ void finish() const {
    for (std::size_t k = 0; k < first_entries; ++k)
      if (first_[k] != 0) atomicAdd(&shared_[k], first_[k]);
    __syncthreads();
    for (std::size_t k = threadIdx.x; k < UlpHistogram::most_entries; k += blockDim.x)
      if (shared_[k] != 0)
        atomicAdd(reinterpret_cast<Counter*>(&to_.histogram[k]), Counter{shared_[k]});
  }

 private:
  static constexpr std::size_t first_entries = 4;  ///< up to 2 ulp

  mutable unsigned first_[first_entries] = {};
  unsigned* shared_;
  TallyResult to_;
};

}  // namespace opbound::detail
