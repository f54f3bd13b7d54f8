// Teams: who carries out a block's maps and reductions, and in which declared order.
//
// A kernel reduces through its team only: `sum` and `max` are collective, `map` is not. The order
// of HostTeam<W> and DeviceTeam<W> is the same: lane t combines elements t, t + W, t + 2W, ... in
// turn, then lane t takes in lane t + s for s = W/2, W/4, ..., 1. Lanes without elements take no
// part, so no rounding comes from adding zeros.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/number.hpp"
#include "ops/portable.hpp"

namespace opbound {

/// How a reduction combines two values, and what the empty one gives.
struct Sum {
  template <class T>
  OPBOUND_HD static T combine(T a, T b) {
    return a + b;
  }
  template <class T>
  OPBOUND_HD static T empty() {
    return from<T>(0.0);
  }
};
struct Max {
  template <class T>
  OPBOUND_HD static T combine(T a, T b) {
    return max(a, b);
  }
  template <class T>
  OPBOUND_HD static T empty() {
    return from<T>(-std::numeric_limits<double>::infinity());
  }
};

/// Lanes of every own kernel's team: one declared order on the host and on the device.
inline constexpr int team_width = 128;

/// Additions on the longest path of a sum of n terms in the order of a team of width W.
OPBOUND_HD constexpr std::int64_t sum_height(std::int64_t n, int width) {
  std::int64_t height = n > 0 ? (n + width - 1) / width - 1 : 0;
  for (std::int64_t lanes = n < width ? n : width; lanes > 1; lanes = (lanes + 1) / 2) ++height;
  return height;
}

template <int W>
struct HostTeam {
  static_assert(W > 0 && (W & (W - 1)) == 0);

  template <class F>
  auto sum(std::int64_t n, F term) const {
    return reduce<Sum>(n, term);
  }
  template <class F>
  auto max(std::int64_t n, F term) const {
    return reduce<Max>(n, term);
  }
  template <class F>
  void map(std::int64_t n, F action) const {
    for (std::int64_t i = 0; i < n; ++i) action(i);
  }

 private:
  template <class Kind, class F>
  static auto reduce(std::int64_t n, F term) {
    using T = decltype(term(std::int64_t{0}));
    if (n <= 0) return Kind::template empty<T>();
    const int lanes = n < W ? static_cast<int>(n) : W;
    T lane[W];
    for (int t = 0; t < lanes; ++t) {
      lane[t] = term(t);
      for (std::int64_t i = t + W; i < n; i += W) lane[t] = Kind::combine(lane[t], term(i));
    }
    for (int s = W / 2; s > 0; s /= 2) {
      for (int t = 0; t < s && t + s < lanes; ++t) lane[t] = Kind::combine(lane[t], lane[t + s]);
    }
    return lane[0];
  }
};

#ifdef __CUDACC__
/// One thread block of W threads; `lanes` is shared memory for W values of the widest type reduced.
template <int W>
struct DeviceTeam {
  void* lanes;

  template <class F>
  __device__ auto sum(std::int64_t n, F term) const {
    return reduce<Sum>(n, term);
  }
  template <class F>
  __device__ auto max(std::int64_t n, F term) const {
    return reduce<Max>(n, term);
  }
  template <class F>
  __device__ void map(std::int64_t n, F action) const {
    for (std::int64_t i = threadIdx.x; i < n; i += W) action(i);
  }

 private:
  template <class Kind, class F>
  __device__ auto reduce(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    if (n <= 0) return Kind::template empty<T>();
    T* lane = static_cast<T*>(lanes);
    const int active = n < W ? static_cast<int>(n) : W;
    const int t = static_cast<int>(threadIdx.x);
    if (t < active) {
      T value = term(t);
      for (std::int64_t i = t + W; i < n; i += W) value = Kind::combine(value, term(i));
      lane[t] = value;
    }
    for (int s = W / 2; s > 0; s /= 2) {
      __syncthreads();
      if (t < s && t + s < active) lane[t] = Kind::combine(lane[t], lane[t + s]);
    }
    __syncthreads();
    const T result = lane[0];
    __syncthreads();  // nobody may start the next reduction while someone still reads this one
    return result;
  }
};
#endif

}  // namespace opbound
