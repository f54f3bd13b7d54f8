// Teams: who carries out a block's maps and reductions, and in which declared order.
//
// A kernel reduces through its team only. `sum`, `max`, `any` and `reduce` are collective, so every
// lane must come to them. The order of HostTeam<W> and DeviceTeam<W> is the same: lane t combines
// elements t, t + W, t + 2W, ... in turn, then lane t takes in lane t + s for s = W/2, W/4, ..., 1.
// Lanes without elements take no part, so no rounding comes from adding zeros.
//
// `serial_sum` and `dot` belong to one lane, inside a map or a term: elements 0, 1, 2, ... in turn,
// `dot` by fused multiply-adds.
//
// `map` is not collective: between a map that writes and whoever reads what other lanes wrote
// stands a `barrier`.
//
// `remember` changes no bit: what a kernel would compute twice for a lane may be looked up.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

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

struct Any {
  OPBOUND_HD static bool combine(bool a, bool b) { return a || b; }
  template <class T>
  OPBOUND_HD static T empty() {
    return false;
  }
};

/// Lanes of every own kernel's team: one declared order on the host and on the device.
inline constexpr int team_width = 128;

/// Bytes of the widest value that a reduction may hand from lane to lane.
template <class T>
inline constexpr int widest_lane = 4 * sizeof(T);

/// What a team does without memory of its own, one element after the other.
struct OneByOne {
  /// f, whose values a team may keep for the lanes that ask again; here they are computed again.
  /// What was remembered before is forgotten, element by element: f(i) may still ask for its i. A
  /// lane asks for the elements that `reduce`, `map` and `store` give it.
  template <class F>
  OPBOUND_HD F remember(std::int64_t, F f) const {
    return f;
  }
  /// put(i, value(i)) for every i. Values of several elements may be computed before any is put,
  /// so none may hang on another's.
  template <class F, class Put>
  OPBOUND_HD void store(std::int64_t n, F value, Put put) const {
    for (std::int64_t i = 0; i < n; ++i) put(i, value(i));
  }
};

/// What one lane does alone: the same on the host and on the device.
struct LaneSums {
  template <class F>
  OPBOUND_HD auto serial_sum(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    if (n <= 0) return Sum::empty<T>();
    T total = term(0);
    for (std::int64_t i = 1; i < n; ++i) total = total + term(i);
    return total;
  }
  template <class A, class B>
  OPBOUND_HD auto dot(std::int64_t n, A a, B b) const {
    using T = decltype(a(std::int64_t{0}));
    if (n <= 0) return Sum::empty<T>();
    T total = a(0) * b(0);
    for (std::int64_t i = 1; i < n; ++i) total = fma(a(i), b(i), total);
    return total;
  }
};

/// Additions on the longest path of a sum of n terms in the order of a team of width W.
OPBOUND_HD constexpr std::int64_t sum_height(std::int64_t n, int width) {
  std::int64_t height = n > 0 ? (n + width - 1) / width - 1 : 0;
  for (std::int64_t lanes = n < width ? n : width; lanes > 1; lanes = (lanes + 1) / 2) ++height;
  return height;
}

template <int W>
struct HostTeam : LaneSums, OneByOne {
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
  bool any(std::int64_t n, F predicate) const {
    return reduce<Any>(n, predicate);
  }
  template <class F>
  void map(std::int64_t n, F action) const {
    for (std::int64_t i = 0; i < n; ++i) action(i);
  }
  void barrier() const {}

  /// Kind::combine(a, b) of terms, Kind::empty<T>() of none.
  template <class Kind, class F>
  auto reduce(std::int64_t n, F term) const {
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
/// One thread block of W threads; `lanes` is shared memory of LaneBytes bytes for each of them.
template <int W, int LaneBytes>
struct DeviceTeam : LaneSums {
  void* lanes;

  __device__ explicit DeviceTeam(void* shared) : lanes(shared) {}

  template <class F>
  __device__ auto sum(std::int64_t n, F term) const {
    return reduce<Sum>(n, term);
  }
  template <class F>
  __device__ auto max(std::int64_t n, F term) const {
    return reduce<Max>(n, term);
  }
  template <class F>
  __device__ bool any(std::int64_t n, F predicate) const {
    return reduce<Any>(n, predicate);
  }
  template <class F>
  __device__ void map(std::int64_t n, F action) const {
    for (std::int64_t i = threadIdx.x; i < n; i += W) action(i);
  }
  __device__ void barrier() const { __syncthreads(); }

  template <class F>
  __device__ F remember(std::int64_t, F f) const {
    return f;
  }
  /// In groups, so that the loads of several elements are under way at the same time.
  template <class F, class Put>
  __device__ void store(std::int64_t n, F value, Put put) const {
    grouped<4>(n, value, put);
  }

  template <class Kind, class F>
  __device__ auto reduce(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    static_assert(sizeof(T) <= LaneBytes, "a reduction's value is wider than widest_lane");
    if (n <= 0) return Kind::template empty<T>();
    T* lane = static_cast<T*>(lanes);
    const int active = n < W ? static_cast<int>(n) : W;
    const int t = static_cast<int>(threadIdx.x);
    if (t < active) {
      T value = term(t);
      for (std::int64_t i = t + W; i < n; i += W) value = Kind::combine(value, term(i));
      lane[t] = value;
    }
    constexpr bool shuffles = std::is_floating_point_v<T> && W >= warp;
    for (int s = W / 2; s >= (shuffles ? warp : 1); s /= 2) {
      __syncthreads();
      if (t < s && t + s < active) lane[t] = Kind::combine(lane[t], lane[t + s]);
    }
    if constexpr (shuffles) combine_in_warp<Kind>(lane, active);
    __syncthreads();
    const T result = lane[0];
    __syncthreads();  // nobody may start the next reduction while someone still reads this one
    return result;
  }

 protected:
  /// put(i, value(i)) of this lane's elements, `size` values computed before any of them is put.
  template <int size, class F, class Put>
  __device__ static void grouped(std::int64_t n, F value, Put put) {
    std::int64_t i = threadIdx.x;
    for (; i + (size - 1) * W < n; i += size * W) {
      decltype(value(i)) values[size];
#pragma unroll
      for (int k = 0; k < size; ++k) values[k] = value(i + k * W);
#pragma unroll
      for (int k = 0; k < size; ++k) put(i + k * W, values[k]);
    }
    for (; i < n; i += W) put(i, value(i));
  }

 private:
  static constexpr int warp = 32;

  /// The steps s = 16, 8, ..., 1 of the order, in the first warp, whose lanes wrote what they read.
  template <class Kind, class T>
  __device__ static void combine_in_warp(T* lane, int active) {
    const int t = static_cast<int>(threadIdx.x);
    if (t >= warp) return;
    T value = t < active ? lane[t] : T{};
#pragma unroll
    for (int s = warp / 2; s > 0; s /= 2) {
      const T other = __shfl_down_sync(~0U, value, static_cast<unsigned>(s));
      if (t < s && t + s < active) value = Kind::combine(value, other);
    }
    if (t == 0) lane[0] = value;
  }
};

/// A DeviceTeam with shared memory for all that a kernel remembers.
template <class T>
struct RememberingTeam : DeviceTeam<team_width, widest_lane<T>> {
  T* memory;

  __device__ RememberingTeam(void* shared, T* values)
      : DeviceTeam<team_width, widest_lane<T>>(shared), memory(values) {}

  struct Remembered {
    const T* values;
    __device__ T operator()(std::int64_t i) const { return values[i]; }
  };

  /// Each lane keeps its own elements, so nobody waits.
  template <class F>
  __device__ Remembered remember(std::int64_t n, F f) const {
    this->template grouped<8>(n, f, [this](std::int64_t i, T value) { memory[i] = value; });
    return {memory};
  }
};
#endif

}  // namespace opbound
