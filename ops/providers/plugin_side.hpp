// What a plug-in written in C++ needs on its side of ops/provider.h. Of opbound it includes nothing
// else, and it is C++17, so that a plug-in's folder builds alone and with the flags of its library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/provider.h"

namespace opbound::plugin_side {

/// The library has no kernel for the call, or opbound no bound for its kernel: a record `skipped`
/// with this reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& why_not) {
  if (!holds) throw Unsupported(why_not);
}

/// "fp32"
inline std::string name_of(int element) {
  constexpr const char* names[] = {"fp64", "fp32", "tf32",  "bf16",  "fp16",
                                   "e4m3", "e5m2", "int32", "int64", "boolean"};
  return names[element];
}

inline bool is_narrow(int element) { return element == OPBOUND_BF16 || element == OPBOUND_FP16; }

/// One call of opbound's. What it does not have, and the kernel relies on, is an error of the
/// plug-in's: std::logic_error.
class Call {
 public:
  explicit Call(const opbound_call& call) : call_(call) {}

  const opbound_call& get() const { return call_; }
  bool is_backward() const { return std::string_view(call_.direction) == "backward"; }
  std::string_view variant() const { return call_.variant; }

  /// Null for a tensor that the call does not have.
  const opbound_tensor* find(const char* name) const { return opbound_tensor_named(&call_, name); }
  bool has(const char* name) const { return find(name) != nullptr; }
  const opbound_tensor& tensor(const char* name) const {
    return there(find(name), "the call has no tensor ", name);
  }

  bool flag(const char* name) const { return attribute(name).value.flag != 0; }
  std::int64_t whole(const char* name) const { return attribute(name).value.whole; }
  double number(const char* name) const { return attribute(name).value.number; }
  std::string word(const char* name) const { return attribute(name).value.word; }

  /// Unsupported where one of these attributes, formats in which a value is held on the way, is not
  /// "as computed".
  void require_as_computed(std::initializer_list<const char*> attributes) const {
    for (const char* name : attributes)
      require(word(name) == "fp64", std::string("it has no ") + name + " = " + word(name));
  }

 private:
  template <class T>
  static const T& there(const T* found, const char* absence, const char* name) {
    if (found == nullptr) throw std::logic_error(std::string(absence) + name);
    return *found;
  }
  const opbound_attribute& attribute(const char* name) const {
    return there(opbound_attribute_named(&call_, name), "the call has no attribute ", name);
  }

  const opbound_call& call_;
};

/// Is `word` one of those that stand between `|` in `list`?
inline bool lists(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find('|', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

/// The first of the kernels, each of which has an op, a direction or null for both, and variants as
/// in opbound_algorithm, that the call is about.
template <class Kernel>
const Kernel& kernel_for(const std::vector<Kernel>& kernels, const opbound_call& call) {
  for (const Kernel& k : kernels)
    if (std::strcmp(k.op, call.op) == 0 && lists(k.variants, call.variant) &&
        (k.direction == nullptr || std::strcmp(k.direction, call.direction) == 0))
      return k;
  throw Unsupported(std::string("no kernel for ") + call.op + " " + call.direction);
}

/// Runs `call`; its exceptions, which must not leave the plug-in, as a status with a message.
template <class F>
int guarded(char* message, std::size_t message_size, F call) {
  const auto told = [&](int status, const char* why) {
    std::snprintf(message, message_size, "%s", why);
    return status;
  };
  try {
    call();
    return OPBOUND_OK;
  } catch (const Unsupported& e) {
    return told(OPBOUND_UNSUPPORTED, e.what());
  } catch (const std::exception& e) {
    return told(OPBOUND_FAILED, e.what());
  }
}

/// "13.1.0" of 130100, as cuBLAS and cuDNN 9 count.
inline std::string version_text(std::size_t v) {
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

/// "13.0" of 13000, as CUDA counts.
inline std::string runtime_text(std::size_t v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

/// A setting's value is none: one line, with which the plug-in does not open.
inline std::invalid_argument wrong_setting(const char* name, std::string_view value,
                                           const std::string& expected) {
  return std::invalid_argument(std::string(name) + " is '" + std::string(value) + "', expected " +
                               expected);
}

/// An environment variable that is "on" or "off"; off where there is none.
inline bool read_switch(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || std::string_view(value) == "off") return false;
  if (std::string_view(value) != "on") throw wrong_setting(name, value, "on or off");
  return true;
}

/// What a plug-in says of itself, with the texts that its opbound_provider points at. The texts of
/// algorithms and functions are not its own: they have to last.
struct Description {
  int device = OPBOUND_CUDA;
  std::string name, version;
  decltype(opbound_provider::run) run = nullptr;
  decltype(opbound_provider::supports) supports = nullptr;
  decltype(opbound_provider::workspace_size) workspace_size = nullptr;
  std::vector<opbound_algorithm> algorithms;
  std::vector<opbound_function_error> functions;
  std::vector<std::pair<std::string, std::string>> environment;
  bool is_replayable = false;
};

/// A description as opbound reads it.
class Described {
 public:
  explicit Described(Description of) : of_(std::move(of)) {
    for (const auto& [name, value] : of_.environment)
      environment_.push_back({name.c_str(), value.c_str()});
    provider_.struct_size = sizeof provider_;
    provider_.abi_version = OPBOUND_ABI_VERSION;
    provider_.device = of_.device;
    provider_.name = of_.name.c_str();
    provider_.version = of_.version.c_str();
    provider_.run = of_.run;
    provider_.supports = of_.supports;
    provider_.workspace_size = of_.workspace_size;
    provider_.algorithm_count = of_.algorithms.size();
    provider_.algorithms = of_.algorithms.data();
    provider_.function_count = of_.functions.size();
    provider_.functions = of_.functions.data();
    provider_.environment_count = environment_.size();
    provider_.environment = environment_.data();
    provider_.is_replayable = of_.is_replayable ? 1 : 0;
  }
  Described(const Described&) = delete;  // what it points at is its own
  Described& operator=(const Described&) = delete;
  ~Described() = default;

  const opbound_provider* provider() const { return &provider_; }

 private:
  const Description of_;
  std::vector<opbound_environment> environment_;
  opbound_provider provider_{};
};

/// A provider that can run nothing, and says why.
inline const opbound_provider* refused(const char* why) {
  static std::string text;
  static opbound_provider provider{};
  text = why;
  provider.struct_size = sizeof provider;
  provider.abi_version = OPBOUND_ABI_VERSION;
  provider.refusal = text.c_str();
  return &provider;
}

/// What opbound_provider_v1 returns: made at the first call, and it lasts. Where describing throws,
/// a provider that says why.
template <Description (*describe)()>
const opbound_provider* described() {
  try {
    static const Described once(describe());
    return once.provider();
  } catch (const std::exception& e) {
    return refused(e.what());
  }
}

}  // namespace opbound::plugin_side
