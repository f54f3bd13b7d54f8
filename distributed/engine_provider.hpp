// An engine in the place of a provider: what records say of it, what it keeps to, and its
// all-reduce as a kernel of the op.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "distributed/engine.hpp"
#include "ops/provider.hpp"

namespace opbound {

class EngineProvider final : public Provider {
 public:
  explicit EngineProvider(Engine& engine, int order = all_reduce::ring)
      : engine_(engine), order_(order) {}

  std::string name() const override { return engine_.traits().name; }
  std::string version() const override { return engine_.traits().version; }
  std::string device() const override { return engine_.traits().device; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return engine_.traits().environment;
  }
  bool is_foreign() const override { return !engine_.traits().keeps_order; }
  Contract contract(const Op&, std::vector<int> variants) const override {
    Contract c;
    c.variants = std::move(variants);
    c.order = engine_.traits().keeps_order ? Contract::Order::own : Contract::Order::any;
    return c;
  }

  /// The all-reduce of a call whose ranks are the engine's. Every process calls it and gets rank
  /// 0's result, so that all of them go on in the same way.
  void run(const Op& op, const Call& call) const override;

 private:
  Engine& engine_;
  int order_;
};

}  // namespace opbound
