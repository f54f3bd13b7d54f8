#include "distributed/nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "distributed/launch.hpp"
#include "distributed/module.hpp"
#include "distributed/modules/nccl_transport.hpp"
#include "distributed/mpi.hpp"
#include "distributed/tcp.hpp"
#include "ops/provider.hpp"

namespace opbound {
namespace {

class NcclEngine final : public Engine {
 public:
  NcclEngine(std::int32_t ranks, std::vector<std::string> unwaited, double seconds)
      : unwaited_(std::move(unwaited)), seconds_(seconds) {
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    const auto open =
        reinterpret_cast<OpenNccl>(open_module("nccl", "libopbound_nccl.so", "opbound_nccl_open"));
    if (const char* error = open(&nccl_)) throw Unavailable(std::string("nccl: ") + error);
    const auto launch = launched();
    if (launch && launch->size > 1) {
      join(*launch);
      return;
    }
    ranks_ = local_ = ranks > 0 ? ranks : nccl_.devices;
    if (nccl_.devices < std::max(ranks_, 1))
      throw Unavailable("nccl: " + std::to_string(nccl_.devices) + " GPUs for " +
                        std::to_string(std::max(ranks_, 1)) + " ranks");
    std::vector<int> devices(static_cast<std::size_t>(ranks_));
    std::iota(devices.begin(), devices.end(), 0);
    require(nccl_.start(devices, 0, ranks_, nullptr));
  }
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;
  ~NcclEngine() override {
    if (const char* error = nccl_.finish()) std::fprintf(stderr, "opbound: %s\n", error);
  }

  std::string name() const override { return "nccl"; }
  std::string version() const override {
    const int v = nccl_.version;  // from 2.9 on: major 10000, minor 100
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
  }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    auto all = variables();
    if (!launcher_.empty()) all.emplace_back("launcher", launcher_);
    if (!unwaited_.empty())
      all.emplace_back("unwaited", fmt::format("{}", fmt::join(unwaited_, ",")));
    if (offset_ != 0) all.emplace_back("offset", std::to_string(offset_));
    return all;
  }
  std::string settings() const override {
    std::string text;
    for (const auto& [name, value] : variables()) text += ", " + name + "=" + value;
    return text;
  }
  std::string device() const override { return "cuda"; }
  std::int32_t ranks() const override { return ranks_; }
  std::int32_t first_rank() const override { return first_; }
  std::int32_t local_ranks() const override { return local_; }
  bool keeps_order() const override { return false; }
  bool averages() const override { return true; }

  bool delay_streams(const std::vector<TensorRange>& tensors) override {
    late_ = tensors;
    return true;
  }
  bool set_offset(std::int64_t elements) override {
    offset_ = elements;
    return true;
  }

  void run(const Schedule& schedule, const Reducer& reducer, Buffers& buffers) override {
    const Element element = element_of(reducer.wire);
    if (!is_moved_and_added(element) || !(reducer.wire == reducer.compute))
      throw Unavailable("NCCL adds in the format that it moves: fp64, fp32, bf16, fp16");
    const std::int64_t count = std::ssize(buffers.front());
    std::vector<Tensor> messages;
    std::vector<void*> data;
    for (const auto& own : buffers) messages.emplace_back(element, Shape{count}, own);
    for (Tensor& m : messages) data.push_back(m.bytes().data());
    const std::vector<NcclPart> parts = parts_of(count);
    NcclCall call{schedule.collective,
                  reducer.reduction,
                  element,
                  count,
                  chunk_of(schedule, count, 0).count,
                  offset_,
                  data,
                  parts,
                  seconds_};
    const bool divides_after = adds(schedule.collective) && reducer.is_mean() &&
                               reducer.divides == all_reduce::Divides::after;
    if (divides_after) call.reduction = all_reduce::Reduction::sum;
    require(nccl_.run(call));
    for (std::size_t k = 0; k < buffers.size(); ++k)
      for (std::int64_t i = 0; i < count; ++i) {
        const double v = messages[k].at(i);
        buffers[k][static_cast<std::size_t>(i)] =
            divides_after ? reducer.kept(reducer.finished(v)) : v;
      }
  }
  std::vector<std::byte> gather(std::span<const std::byte> own) override {
    if (transport_) return transport_->gather(own);
    return {own.begin(), own.end()};
  }

 private:
  /// One rank in each process: rank 0's id reaches the others through MPI, or TCP under torchrun.
  void join(const Launched& launch) {
    launcher_ = launch.by;
    transport_ = launch.by == "torchrun" ? tcp_engine(seconds_) : mpi_engine(seconds_);
    if (transport_->ranks() != launch.size)
      throw ProviderFailure(launch.by + " started " + std::to_string(launch.size) +
                            " ranks, of which " + transport_->name() + " knows " +
                            std::to_string(transport_->ranks()));
    ranks_ = transport_->ranks();
    first_ = transport_->first_rank();
    local_ = 1;
    if (nccl_.devices == 0) throw Unavailable("nccl: no GPU");
    std::vector<std::byte> id(nccl_id_bytes);
    if (first_ == 0) require(nccl_.unique_id(id.data()));
    id = transport_->gather(id);
    const int device = launch.local_rank % nccl_.devices;
    require(nccl_.start({&device, 1}, first_, ranks_, id.data()));
  }

  static std::vector<std::pair<std::string, std::string>> variables() {
    std::vector<std::pair<std::string, std::string>> all;
    for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE"})
      if (const char* value = std::getenv(name)) all.emplace_back(name, value);
    return all;
  }

  static void require(const char* error) {
    if (error == nullptr) return;
    const std::string text = std::string("nccl: ") + error;
    // what NCCL_ALGO and NCCL_PROTO leave it no way to do is not there
    if (text.find("no algorithm/protocol available") != std::string::npos) throw Unavailable(text);
    throw ProviderFailure(text);
  }

  std::vector<NcclPart> parts_of(std::int64_t count) const {
    if (late_.empty()) return {{{0, count}, false, true}};
    std::vector<NcclPart> parts;
    for (const TensorRange& t : late_) {
      const bool is_waited =
          std::find(unwaited_.begin(), unwaited_.end(), t.name) == unwaited_.end();
      parts.push_back({t.range, true, is_waited});
    }
    return parts;
  }

  NcclTransport nccl_;
  std::unique_ptr<Engine> transport_;  ///< where there are several processes
  std::int32_t ranks_ = 0, first_ = 0, local_ = 0;
  std::int64_t offset_ = 0;
  std::vector<TensorRange> late_;
  std::vector<std::string> unwaited_;
  std::string launcher_;  ///< of several processes
  double seconds_;
};

}  // namespace

std::unique_ptr<Engine> nccl_engine(std::int32_t ranks, std::vector<std::string> unwaited,
                                    double seconds) {
  return std::make_unique<NcclEngine>(ranks, std::move(unwaited), seconds);
}

}  // namespace opbound
