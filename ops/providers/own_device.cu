// This project's kernels on a CUDA device. Host tensors are copied there and the outputs back.
#include <cuda_runtime.h>

#include <fstream>

#include "ops/device_call.hpp"
#include "ops/provider.hpp"

namespace opbound {
namespace {

std::string version_text(int v) {  // 13020 -> 13.2
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

/// The kernel driver's version, "580.159.04"; the CUDA version it supports is another number.
std::string kernel_driver() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  return file >> version ? version : "not told";
}

class OwnDevice final : public Provider {
 public:
  explicit OwnDevice(int index) : index_(index) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
      throw Unavailable(std::string("no CUDA device here (") + cudaGetErrorString(status) + ")");
    if (index < 0 || index >= count)
      throw Unavailable("no CUDA device number " + std::to_string(index) + "; there are " +
                        std::to_string(count));
    OPBOUND_CUDA_CHECK(cudaSetDevice(index));
    OPBOUND_CUDA_CHECK(cudaGetDeviceProperties(&properties_, index));
    OPBOUND_CUDA_CHECK(cudaDriverGetVersion(&driver_));
    OPBOUND_CUDA_CHECK(cudaRuntimeGetVersion(&runtime_));
  }

  std::string name() const override { return "own"; }
  std::string version() const override { return own_host_provider()->version(); }
  std::string device() const override { return properties_.name; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return {{"compiler", "nvcc " + std::to_string(__CUDACC_VER_MAJOR__) + "." +
                             std::to_string(__CUDACC_VER_MINOR__) + ", " + __VERSION__},
            {"driver", kernel_driver()},
            {"cuda_driver_api", version_text(driver_)},
            {"cuda_runtime", version_text(runtime_)},
            {"compute_capability",
             std::to_string(properties_.major) + "." + std::to_string(properties_.minor)}};
  }
  Contract contract(const Op& op, std::vector<int> variants) const override {
    return own_host_provider()->contract(
        op, std::move(variants));  // same source, same order, same bits
  }

  void run(const Op& op, const Call& call) const override {
    select_device();
    const cuda::DeviceCall there(call);
    op.run_on_device(there.call());
    there.copy_back(call.forward);
    there.copy_back(call.backward);
  }

  bool is_on_device() const override { return true; }
  bool is_replayable() const override { return true; }
  void select_device() const override { OPBOUND_CUDA_CHECK(cudaSetDevice(index_)); }
  void run_on_device(const Op& op, const Call& call) const override { op.run_on_device(call); }

 private:
  int index_;
  cudaDeviceProp properties_{};
  int driver_ = 0;
  int runtime_ = 0;
};

}  // namespace

std::unique_ptr<Provider> own_device_provider(int index) {
  return std::make_unique<OwnDevice>(index);
}

}  // namespace opbound
