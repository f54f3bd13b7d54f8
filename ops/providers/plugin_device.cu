// The device's side of a plug-in for CUDA. The shared memory is copied there and back as a whole,
// guard zones and inputs too, so that one check on the host serves both kinds of plug-ins.
#include "ops/providers/plugin_device.hpp"

#include <cuda_runtime.h>

#include <optional>

#include "ops/cuda.hpp"

namespace opbound::detail {
namespace {

class CudaSide final : public DeviceSide {
 public:
  explicit CudaSide(int index) : provider_(own_device_provider(index)) {
    provider_->select_device();
    OPBOUND_CUDA_CHECK(cudaStreamCreate(&stream_));
  }

  std::string name() const override { return provider_->device(); }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    auto all = provider_->environment();
    std::erase_if(all, [](const auto& entry) { return entry.first == "compiler"; });
    return all;
  }
  void* stream() const override { return stream_; }

  std::byte* copy_there(std::span<const std::byte> memory) override {
    provider_->select_device();  // the plug-in may have chosen another
    copy_.emplace(memory.size());
    copy_->copy_from_host(memory.data());
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());  // the plug-in's stream does not wait for ours
    return copy_->as<std::byte>();
  }
  void copy_back(std::span<std::byte> memory) override {
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    provider_->select_device();
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    copy_->copy_to_host(memory.data());
    copy_.reset();
  }

 private:
  std::unique_ptr<Provider> provider_;
  cudaStream_t stream_ = nullptr;  // ends with the process
  std::optional<cuda::Memory> copy_;
};

}  // namespace

std::unique_ptr<DeviceSide> device_side(int index) { return std::make_unique<CudaSide>(index); }

}  // namespace opbound::detail
