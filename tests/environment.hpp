// Variables of the environment as a test says, and then as they were before.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace opbound {

/// None of these is set while one lives, but for what the test sets itself.
class Environment {
 public:
  explicit Environment(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) {
      const char* value = std::getenv(name.c_str());
      before_.emplace_back(value == nullptr ? std::optional<std::string>() : value);
    }
    clear();
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    clear();
    for (std::size_t k = 0; k < names_.size(); ++k)
      if (before_[k]) setenv(names_[k].c_str(), before_[k]->c_str(), 1);
  }

  void clear() const {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::optional<std::string>> before_;
};

}  // namespace opbound
