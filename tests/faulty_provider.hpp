// A faulty kernel behind the contract of the right one.
#pragma once

#include <string>
#include <utility>

#include "ops/provider.hpp"
#include "tests/faulty_kernel.hpp"

namespace opbound {

class FaultyProvider final : public Provider {
 public:
  FaultyProvider(std::string_view name, Kernel kernel) : name_(name), kernel_(std::move(kernel)) {}
  std::string name() const override { return "fault"; }
  std::string version() const override { return name_; }
  std::string device() const override { return "cpu"; }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  Contract contract(const Op& op, std::vector<int> variants) const override {
    return own_host_provider()->contract(op, std::move(variants));
  }
  void run(const Op& op, const Call& call) const override { kernel_(op, call); }

 private:
  std::string name_;
  Kernel kernel_;
};

}  // namespace opbound
