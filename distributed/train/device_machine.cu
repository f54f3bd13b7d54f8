// A training run's memory and calls on a CUDA device. Plain cudaMalloc only.
#include <cuda_runtime.h>

#include <map>
#include <vector>

#include "distributed/train/machine.hpp"
#include "ops/cuda.hpp"

namespace opbound::train {
namespace {

class DeviceMachine final : public Machine {
 public:
  explicit DeviceMachine(int index) : own_(own_device_provider(index)), index_(index) {
    own_->select_device();
  }
  ~DeviceMachine() override {
    for (const auto& [key, graph] : graphs_)
      if (graph.ready != nullptr) cudaGraphExecDestroy(graph.ready);
    for (cudaEvent_t mark : marks_) cudaEventDestroy(mark);
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
  /// The first time as it is: plug-ins choose and load their kernels then.
  void replay(std::uint64_t key, const std::function<void()>& start) override {
    Graph& graph = graphs_[key];
    if (!graph.was_started) {
      start();
      graph.was_started = true;
      return;
    }
    if (graph.ready == nullptr) graph.ready = captured(start);
    OPBOUND_CUDA_CHECK(cudaGraphLaunch(graph.ready, own_stream()));
  }
  std::size_t mark() override {
    marks_.push_back(nullptr);
    OPBOUND_CUDA_CHECK(cudaEventCreate(&marks_.back()));
    OPBOUND_CUDA_CHECK(cudaEventRecord(marks_.back(), own_stream()));
    return marks_.size() - 1;
  }
  double ms_between(std::size_t begin, std::size_t end) override {
    float ms = 0;
    OPBOUND_CUDA_CHECK(cudaEventSynchronize(marks_[end]));
    OPBOUND_CUDA_CHECK(cudaEventElapsedTime(&ms, marks_[begin], marks_[end]));
    return ms;
  }
  void* stream() const override { return own_stream(); }
  std::optional<PluginPlace> plugin_place() override {
    return PluginPlace{index_, own_stream(), [this](std::uint64_t bytes) {
                         return workspace(static_cast<std::int64_t>(bytes));
                       }};
  }

 private:
  /// Sources are compiled with a default stream for each thread.
  static cudaStream_t own_stream() { return cudaStreamPerThread; }

  static void copy_by(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind) {
    OPBOUND_CUDA_CHECK(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, own_stream()));
  }

  struct Graph {
    bool was_started = false;
    cudaGraphExec_t ready = nullptr;
  };

  static cudaGraphExec_t captured(const std::function<void()>& start) {
    cudaGraph_t graph = nullptr;
    OPBOUND_CUDA_CHECK(cudaStreamBeginCapture(own_stream(), cudaStreamCaptureModeRelaxed));
    try {
      start();
    } catch (...) {
      cudaStreamEndCapture(own_stream(), &graph);  // what was thrown says more
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    OPBOUND_CUDA_CHECK(cudaStreamEndCapture(own_stream(), &graph));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphDestroy(graph);
    OPBOUND_CUDA_CHECK(status);
    return ready;
  }

  /// One for all plug-ins, whose work is in one order. What it was before stays: it may be in use.
  void* workspace(std::int64_t bytes) {
    if (bytes > workspace_bytes_) {
      workspace_ = allocate(bytes);
      workspace_bytes_ = bytes;
    }
    return workspace_;
  }

  std::unique_ptr<Provider> own_;
  int index_;
  std::vector<void*> blocks_;
  std::vector<cudaEvent_t> marks_;
  std::map<std::uint64_t, Graph> graphs_;
  void* workspace_ = nullptr;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Machine> device_machine(int index) {
  return std::make_unique<DeviceMachine>(index);
}

}  // namespace opbound::train
