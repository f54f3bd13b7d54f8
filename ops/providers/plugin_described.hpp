// What every plug-in has in common as a provider, wherever it runs: what it says of itself.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_description.hpp"

namespace opbound::detail {

class DescribedPlugin : public Provider {
 public:
  std::string name() const override { return about_.name; }
  std::string version() const override { return about_.version; }
  std::string device() const override { return about_.device; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return about_.environment;
  }
  std::string absence() const override {
    return about_.why_no_device.empty() ? "" : about_.name + ": " + about_.why_no_device;
  }
  bool is_foreign() const override { return true; }

  Contract contract(const Op&, std::vector<int> variants) const override {
    return {std::move(variants), Contract::Order::any, about_.functions, {}};
  }

  std::vector<int> variants(const Op& op, Direction direction, const AttributeBytes& attributes,
                            int variant) const override {
    return about_.variants_for(op, direction, attributes, variant);
  }

 protected:
  /// `called`: what records name its file by.
  DescribedPlugin(Description about, const std::string& called) : about_(std::move(about)) {
    about_.environment.emplace_back(plugin_file_key, called);
  }

  Description about_;
};

/// Throws NotAPlugin where no file is.
inline void require_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw NotAPlugin(std::filesystem::exists(path, ignored) ? "is no file" : "no such file",
                     "a shared library");
}

}  // namespace opbound::detail
