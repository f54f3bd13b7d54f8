// Tests that write files: each has an empty folder of its own, which goes with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "reports/error.hpp"

namespace opbound {

class TemporaryFolder : public testing::Test {
 protected:
  TemporaryFolder() : folder_(made()) {}
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Writes a file, in a folder below if its name says so; gives its path.
  std::string put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string get(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(path(name), std::ios::binary).rdbuf();
    return all.str();
  }

  /// What the InputError of an action says, without the folder; empty if it throws none.
  template <class F>
  std::string refused(F action) const {
    try {
      action();
    } catch (const InputError& e) {
      std::string message = e.what();
      for (std::size_t at = 0; (at = message.find(folder_.string() + "/")) != std::string::npos;)
        message.erase(at, folder_.string().size() + 1);
      return message;
    }
    return "";
  }

  const std::filesystem::path folder_;

 private:
  static std::string made() {
    std::string name = (std::filesystem::temp_directory_path() / "opbound_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    return name;
  }
};

}  // namespace opbound
