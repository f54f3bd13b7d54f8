// A target of the fuzzer: a reader, given whatever bytes. tests/fuzz/README.md says how they run.
//
// Each target is one function in one file, void NAME(Bytes), and OPBOUND_FUZZ_TARGET(NAME) below
// it. Built with OPBOUND_LIBFUZZER the file is a program's only target; without, all files are
// linked into test_fuzz, which gives every target its seeds.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ops/provider.hpp"
#include "ops/providers/plugin.hpp"
#include "reports/error.hpp"

namespace opbound::fuzz {

using Bytes = std::span<const std::uint8_t>;
using Target = void (*)(Bytes);

/// All targets of this program by name.
inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

struct Registered {
  Registered(const char* name, Target target) { targets().emplace(name, target); }
};

inline std::string text_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// Ends the program, or the test, where what has to hold of a reader does not.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

/// What a reader may throw at the user: one line. Everything else is a find.
template <class F>
bool reads(F action) {
  const auto check = [](std::string_view line) {
    for (const char c : line)
      require(static_cast<unsigned char>(c) >= ' ' && c != 127, "a refusal of one line");
    require(!line.empty(), "a refusal that says something");
  };
  try {
    action();
    return true;
  } catch (const InputError& e) {
    check(e.what());
  } catch (const ProviderFailure&) {  // these end in a record, which quotes what it holds
  } catch (const NotAPlugin&) {
  }
  return false;
}

/// A folder in memory where there is one; it goes with the program.
inline const std::filesystem::path& scratch() {
  struct Folder {
    Folder() {
      std::error_code ignored;
      const bool has_memory = std::filesystem::is_directory("/dev/shm", ignored);
      std::string name = (has_memory ? std::filesystem::path("/dev/shm")
                                     : std::filesystem::temp_directory_path()) /
                         "opbound_fuzz_XXXXXX";
      if (mkdtemp(name.data()) == nullptr) std::abort();
      path = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path;
}

/// Writes the bytes into a file of this name in the scratch folder; gives its path.
inline std::string put(const std::string& name, std::string_view bytes) {
  const std::string path = (scratch() / name).string();
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}
inline std::string put(const std::string& name, Bytes bytes) { return put(name, text_of(bytes)); }

}  // namespace opbound::fuzz

#ifdef OPBOUND_LIBFUZZER
#define OPBOUND_FUZZ_TARGET(name)                                                      \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) { \
    opbound::fuzz::name({bytes, size});                                                \
    return 0;                                                                          \
  }
#else
#define OPBOUND_FUZZ_TARGET(name) \
  static const opbound::fuzz::Registered registered_##name(#name, opbound::fuzz::name);
#endif
