#include <chrono>
#include <cstring>
#include <new>
#include <vector>

#include "distributed/train/machine.hpp"

namespace opbound::train {
namespace {

struct Freed {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{256}); }
};

class HostMachine final : public Machine {
 public:
  const Provider& own() const override { return *own_; }

  std::byte* allocate(std::int64_t bytes) override {
    const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
    void* const data = ::operator new (size, std::align_val_t{256}, std::nothrow);
    if (data == nullptr)
      throw ProviderFailure("out of memory: " + std::to_string(bytes) + " bytes are needed");
    blocks_.emplace_back(static_cast<std::byte*>(data));
    std::memset(data, 0, size);
    allocated_bytes_ += bytes;
    return blocks_.back().get();
  }
  void write(void* there, const void* here, std::int64_t bytes) override {
    std::memcpy(there, here, static_cast<std::size_t>(bytes));
  }
  void read(void* here, const void* there, std::int64_t bytes) override {
    std::memcpy(here, there, static_cast<std::size_t>(bytes));
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void run(const Provider& provider, const Op& op, const Call& call) override {
    provider.run(op, call);
  }
  void wait() override {}
  std::size_t mark() override {
    marks_.push_back(Clock::now());
    return marks_.size() - 1;
  }
  double ms_between(std::size_t begin, std::size_t end) override {
    return std::chrono::duration<double, std::milli>(marks_[end] - marks_[begin]).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Provider> own_ = own_host_provider();
  std::vector<std::unique_ptr<std::byte, Freed>> blocks_;
  std::vector<Clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Machine> host_machine() { return std::make_unique<HostMachine>(); }

#ifndef OPBOUND_WITH_CUDA
std::unique_ptr<Machine> device_machine(int) {
  throw Unavailable("this opbound was built without CUDA");
}
#endif

}  // namespace opbound::train
