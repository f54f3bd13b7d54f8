// An engine in the place of a provider: what records say of it, and what it keeps to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "distributed/engine.hpp"
#include "ops/provider.hpp"

namespace opbound {

/// Whose kernel a record says it is, and what it keeps to.
class EngineProvider final : public Provider {
 public:
  explicit EngineProvider(const Engine& engine) : engine_(engine) {}

  std::string name() const override { return engine_.name(); }
  std::string version() const override { return engine_.version(); }
  std::string device() const override { return engine_.device(); }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return engine_.environment();
  }
  bool is_foreign() const override { return !engine_.keeps_order(); }
  Contract contract(const Op&, std::vector<int> variants) const override {
    Contract c;
    c.variants = std::move(variants);
    c.order = engine_.keeps_order() ? Contract::Order::own : Contract::Order::any;
    return c;
  }
  void run(const Op&, const Call&) const override {}  // whoever has the engine runs it

 private:
  const Engine& engine_;
};

}  // namespace opbound
