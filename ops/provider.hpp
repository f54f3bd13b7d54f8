// A provider runs an op: ours on the host or the device, a library, a plug-in, or a file that holds
// what somebody's kernel gave. What it declares decides the bound that judges it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.hpp"

namespace opbound {

/// What the provider needs is absent here: the check is skipped, with this reason.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The kernel could not be run, or broke: the check failed, with this reason.
struct ProviderFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Provider {
 public:
  Provider() = default;
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  virtual ~Provider() = default;

  virtual std::string name() const = 0;
  virtual std::string version() const = 0;
  virtual std::string device() const = 0;
  virtual std::vector<std::pair<std::string, std::string>> environment() const = 0;

  /// Why nothing can run here; empty if it can.
  virtual std::string absence() const { return {}; }

  /// Are the kernels somebody else's? Then it is they that decide which algorithm runs, not the
  /// call.
  virtual bool is_foreign() const { return false; }

  /// The algorithms that its kernel may be on such a call, which names `variant`; none: it lists no
  /// kernel for it.
  virtual std::vector<int> variants(const Op&, Direction, const AttributeBytes&,
                                    int variant) const {
    return {variant};
  }

  /// What the kernel keeps to when it is declared to be one of these variants.
  virtual Contract contract(const Op& op, std::vector<int> variants) const = 0;

  /// Runs the call on host memory; every output has been poisoned with NaN.
  /// Throws Unavailable or ProviderFailure.
  virtual void run(const Op& op, const Call& call) const = 0;

  // A provider on a device:

  virtual bool is_on_device() const { return false; }
  /// Makes its device the current one.
  virtual void select_device() const {}
  /// May what a call starts be recorded and started again?
  virtual bool is_replayable() const { return false; }
  /// Starts the call on the current device; the views hold device addresses.
  virtual void run_on_device(const Op&, const Call&) const {
    throw Unavailable(name() + " does not run on a device");
  }
};

/// This project's kernels on the host.
std::unique_ptr<Provider> own_host_provider();

/// This project's kernels on device number `index`. Throws Unavailable in a build without CUDA or
/// on a machine without that device.
std::unique_ptr<Provider> own_device_provider(int index);

}  // namespace opbound
