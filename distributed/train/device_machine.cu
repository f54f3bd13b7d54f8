// A training run's memory and calls on a CUDA device. Plain cudaMalloc only.
#include <cuda_runtime.h>

#include <vector>

#include "distributed/train/machine.hpp"
#include "ops/cuda.hpp"

namespace opbound::train {
namespace {

class DeviceMachine final : public Machine {
 public:
  explicit DeviceMachine(int index) : own_(own_device_provider(index)) { own_->select_device(); }
  ~DeviceMachine() override {
    for (void* block : blocks_) cudaFree(block);  // a broken device was told before
  }

  const Provider& own() const override { return *own_; }

  std::byte* allocate(std::int64_t bytes) override {
    void* data = nullptr;
    const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
    if (cudaMalloc(&data, size) != cudaSuccess) {
      cudaGetLastError();  // it is told here, not at the next call
      std::size_t left = 0, all = 0;
      OPBOUND_CUDA_CHECK(cudaMemGetInfo(&left, &all));
      throw ProviderFailure("out of device memory: " + std::to_string(bytes) +
                            " bytes are needed beside the " + std::to_string(allocated_bytes_) +
                            " that the run has, " + std::to_string(left) + " are free");
    }
    blocks_.push_back(data);
    OPBOUND_CUDA_CHECK(cudaMemsetAsync(data, 0, size, own_stream()));
    allocated_bytes_ += bytes;
    return static_cast<std::byte*>(data);
  }
  void write(void* there, const void* here, std::int64_t bytes) override {
    copy_by(there, here, bytes, cudaMemcpyHostToDevice);
    wait();
  }
  void read(void* here, const void* there, std::int64_t bytes) override {
    copy_by(here, there, bytes, cudaMemcpyDeviceToHost);
    wait();
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    copy_by(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void run(const Provider& provider, const Op& op, const Call& call) override {
    provider.run_on_device(op, call);
  }
  void wait() override { OPBOUND_CUDA_CHECK(cudaStreamSynchronize(own_stream())); }
  void* stream() const override { return own_stream(); }

 private:
  /// Sources are compiled with a default stream for each thread.
  static cudaStream_t own_stream() { return cudaStreamPerThread; }

  static void copy_by(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind) {
    OPBOUND_CUDA_CHECK(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, own_stream()));
  }

  std::unique_ptr<Provider> own_;
  std::vector<void*> blocks_;
};

}  // namespace

std::unique_ptr<Machine> device_machine(int index) {
  return std::make_unique<DeviceMachine>(index);
}

}  // namespace opbound::train
