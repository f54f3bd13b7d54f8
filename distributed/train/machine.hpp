// Where a training run computes: memory, and calls of ops that go on in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "ops/provider.hpp"
#include "ops/providers/plugin.hpp"

namespace opbound::train {

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  /// This project's kernels here.
  virtual const Provider& own() const = 0;

  /// Memory of zeros, aligned to 256 bytes, kept until the machine goes. Throws ProviderFailure
  /// that says what was needed.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  /// Both wait until the copy is made; everything before is done then.
  virtual void write(void* there, const void* here, std::int64_t bytes) = 0;
  virtual void read(void* here, const void* there, std::int64_t bytes) = 0;
  /// Within this machine, in order with the calls.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;

  /// Started, in order; the views hold this machine's addresses.
  virtual void run(const Provider& provider, const Op& op, const Call& call) = 0;
  virtual void wait() = 0;

  /// What `start` starts, which is the same each time with the same key: a machine that has a way
  /// to starts all of it at once from the second time on.
  virtual void replay(std::uint64_t /*key*/, const std::function<void()>& start) { start(); }

  /// A moment between what was started before and what is started next; how long it is from one to
  /// a later one, once what lies between is done, which this waits for.
  virtual std::size_t mark() = 0;
  virtual double ms_between(std::size_t begin, std::size_t end) = 0;

  /// What collectives are given: a cudaStream_t, or null.
  virtual void* stream() const { return nullptr; }
  /// Where plug-ins run in this process, on what is here; nowhere: they have processes of their
  /// own, which what they read is copied to.
  virtual std::optional<PluginPlace> plugin_place() { return std::nullopt; }

  std::int64_t allocated_bytes() const { return allocated_bytes_; }

 protected:
  std::int64_t allocated_bytes_ = 0;
};

std::unique_ptr<Machine> host_machine();

/// Throws Unavailable in a build without CUDA and where there is no such device.
std::unique_ptr<Machine> device_machine(int index);

}  // namespace opbound::train
