// CUDA from host code: every call checked, device memory owned. Plain cudaMalloc only.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "ops/out_of_memory.hpp"

namespace opbound::cuda {

/// Throws ProviderFailure that names the call, the place and CUDA's reason.
inline void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw ProviderFailure(std::string(call) + " at " + file + ":" + std::to_string(line) + ": " +
                        cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}
#define OPBOUND_CUDA_CHECK(call) ::opbound::cuda::check((call), #call, __FILE__, __LINE__)

/// Keeps freed blocks of each device for the next request of about their size there: cudaMalloc
/// and cudaFree wait for the device. A thread's work is in the order of its own stream (sources are
/// compiled with a default stream for each thread), so that the thread may use a block again while
/// the work that used it last is still under way. Other threads may not: each has its own blocks.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  /// At least `bytes`, at most a quarter more. Throws OutOfMemory, which says what is needed and
  /// what there is.
  std::pair<void*, std::size_t> take(std::size_t bytes) {
    const std::size_t size = (bytes + granule - 1) / granule * granule;
    const std::lock_guard lock(mutex_);
    Blocks& free = free_[here()];
    const auto found = free.lower_bound(size);
    if (found != free.end() && found->first <= size + size / 4) {
      const auto block = *found;
      free.erase(found);
      return {block.second, block.first};
    }
    void* data = nullptr;
    cudaError_t status = cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is told here, not at the next call
      release();
      status = cudaMalloc(&data, size);
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t left = 0, all = 0;
      OPBOUND_CUDA_CHECK(cudaMemGetInfo(&left, &all));
      throw OutOfMemory("out of device memory: " + megabytes(size) + " more are needed, " +
                        megabytes(left) + " of " + megabytes(all) + " are free");
    }
    OPBOUND_CUDA_CHECK(status);
    return {data, size};
  }
  void give(void* data, std::size_t size) {
    const std::lock_guard lock(mutex_);
    free_[here()].emplace(size, data);
  }

 private:
  using Blocks = std::multimap<std::size_t, void*>;  ///< by size
  using Place = std::pair<int, std::uint64_t>;       ///< device, thread
  static constexpr std::size_t granule = 512;

  static std::string megabytes(std::size_t bytes) {
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
  }
  /// Threads are counted, since their ids are given again. A broken device shows at the next call.
  static Place here() {
    static std::atomic<std::uint64_t> threads{0};
    static thread_local const std::uint64_t thread = threads++;
    int device = 0;
    cudaGetDevice(&device);
    return {device, thread};
  }
  /// Every thread's free blocks of this device, once nothing uses them any more.
  void release() {
    const int device = here().first;
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    for (auto& [place, blocks] : free_) {
      if (place.first != device) continue;
      for (const auto& [size, data] : blocks) cudaFree(data);
      blocks.clear();
    }
  }

  std::mutex mutex_;
  std::map<Place, Blocks> free_;
};

/// Bytes in device memory.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) std::tie(data_, taken_) = Pool::instance().take(bytes);
  }
  ~Memory() {
    if (data_ != nullptr) Pool::instance().give(data_, taken_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        taken_(other.taken_) {}
  Memory& operator=(Memory&&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void copy_from_host(const void* source) {
    if (bytes_ > 0) OPBOUND_CUDA_CHECK(cudaMemcpy(data_, source, bytes_, cudaMemcpyHostToDevice));
  }
  void copy_to_host(void* target) const {
    if (bytes_ > 0) OPBOUND_CUDA_CHECK(cudaMemcpy(target, data_, bytes_, cudaMemcpyDeviceToHost));
  }
  void clear() {
    if (bytes_ > 0) OPBOUND_CUDA_CHECK(cudaMemset(data_, 0, bytes_));
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0, taken_ = 0;
};

/// Thread blocks for a loop in which each takes more than one in turn.
inline unsigned grid_of(std::int64_t blocks) {
  constexpr std::int64_t most = 1 << 16;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

template <class T>
Memory memory_for(std::int64_t count) {
  return Memory(static_cast<std::size_t>(count) * sizeof(T));
}

}  // namespace opbound::cuda
