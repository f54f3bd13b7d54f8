#include "ops/providers/plugin_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_call.hpp"
#include "ops/providers/plugin_description.hpp"
#include "ops/providers/processor_mode.hpp"

namespace opbound::detail {
namespace {

using Entry = const opbound_provider* (*)();
constexpr const char* entry_name = "opbound_provider_v1";

/// The members that a plug-in must have.
constexpr std::size_t least_size = offsetof(opbound_provider, supports);

std::string open_error(const std::string& file) {
  const char* reason = dlerror();
  std::string text = reason == nullptr ? "unknown error" : reason;
  if (text.starts_with(file + ": ")) text.erase(0, file.size() + 2);
  return text;
}

Entry open_library(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw NotAPlugin("cannot be opened: " + open_error(file), "a shared library");
  void* symbol = dlsym(library, entry_name);
  if (symbol == nullptr)
    throw NotAPlugin("exports no " + std::string(entry_name),
                     "a plug-in as ops/provider.h describes it");
  return reinterpret_cast<Entry>(symbol);
}

/// The members that the plug-in knows of, the others zero.
opbound_provider read_provider(const opbound_provider* theirs) {
  if (theirs == nullptr)
    throw NotAPlugin(std::string(entry_name) + " gives NULL", "an opbound_provider");
  if (theirs->struct_size < least_size)
    throw NotAPlugin("struct_size is " + std::to_string(theirs->struct_size),
                     "sizeof(opbound_provider), at least " + std::to_string(least_size));
  opbound_provider ours{};
  std::memcpy(&ours, theirs, std::min(theirs->struct_size, sizeof ours));
  if (ours.abi_version != OPBOUND_ABI_VERSION)
    throw NotAPlugin("abi_version is " + std::to_string(ours.abi_version),
                     std::to_string(OPBOUND_ABI_VERSION));
  if (ours.refusal != nullptr) throw NotAPlugin(ours.refusal, "");
  if (ours.device != OPBOUND_HOST && ours.device != OPBOUND_CUDA)
    throw NotAPlugin("device is " + std::to_string(ours.device), "OPBOUND_HOST or OPBOUND_CUDA");
  if (ours.name == nullptr || *ours.name == '\0') throw NotAPlugin("has no name", "a name");
  if (ours.run == nullptr) throw NotAPlugin("has no function run", "a function run");
  return ours;
}

std::string text_of(const char* t) { return t == nullptr ? "" : t; }

/// Runs a function of the plug-in; gives what it broke on the way, in words, or nothing.
template <class F>
std::string guarded(F function) {
  const ProcessorMode before = ProcessorMode::now();
  std::string broke;
  try {
    function();
  } catch (const std::exception& e) {
    broke = std::string("it threw an exception: ") + e.what();
  } catch (...) {
    broke = "it threw an exception";
  }
  const std::string changes = before.changes(ProcessorMode::now());
  before.restore();
  if (broke.empty() && !changes.empty()) broke = "it left the processor's mode changed: " + changes;
  return broke;
}

/// A message of the plug-in behind our own words.
class Reason {
 public:
  char* data() { return text_.data(); }
  std::size_t size() const { return text_.size(); }
  std::string behind(const std::string& words) {
    text_.back() = '\0';
    return text_.front() == '\0' ? words : words + ": " + text_.data();
  }
  std::string or_else(const std::string& words) {
    text_.back() = '\0';
    return text_.front() == '\0' ? words : text_.data();
  }

 private:
  std::array<char, 1024> text_{};
};

/// What a status says; `is_bound` where the plug-in said before that it supports the call.
Answer answer_of(int status, Reason& reason, bool is_bound) {
  if (status == OPBOUND_OK) return {};
  if (status == OPBOUND_UNSUPPORTED && is_bound)
    return {Outcome::failed,
            reason.behind("it supports the call by supports() and does not by run()")};
  if (status == OPBOUND_UNSUPPORTED)
    return {Outcome::unsupported, reason.or_else("the plug-in does not support the call")};
  if (status == OPBOUND_FAILED) return {Outcome::failed, reason.behind("it says that it failed")};
  return {Outcome::failed, reason.behind("it returned " + std::to_string(status) +
                                         ", which is no status of ops/provider.h")};
}

}  // namespace

PluginLibrary::PluginLibrary(const PluginSetup& setup) : device_index_(setup.device) {
  const ProcessorMode before = ProcessorMode::now();
  const Entry entry = open_library(setup.file);
  provider_ = read_provider(entry());
  mode_changes_ = before.changes(ProcessorMode::now());
  before.restore();
  if (provider_.device != OPBOUND_CUDA) return;
  try {
    device_ = device_side(setup.device);
  } catch (const Unavailable& e) {
    why_no_device_ = e.what();
  }
}

std::vector<std::string> PluginLibrary::description() const {
  const opbound_provider& p = provider_;
  std::vector<std::string> texts{text_of(p.name), text_of(p.version),
                                 p.device == OPBOUND_HOST ? "cpu" : "cuda", why_no_device_};
  if (device_) texts[2] = device_->name();
  texts.emplace_back(p.supports != nullptr || p.workspace_size != nullptr ? "asks" : "");
  texts.push_back(std::to_string(p.algorithm_count));
  for (std::size_t i = 0; i < p.algorithm_count; ++i)
    for (const char* text :
         {p.algorithms[i].op, p.algorithms[i].direction, p.algorithms[i].variants})
      texts.push_back(text_of(text));
  texts.push_back(std::to_string(p.function_count));
  for (std::size_t i = 0; i < p.function_count; ++i) {
    texts.push_back(text_of(p.functions[i].function));
    std::array<char, 40> ulp{};
    std::snprintf(ulp.data(), ulp.size(), "%.17g", p.functions[i].ulp);
    texts.emplace_back(ulp.data());
  }
  for (std::size_t i = 0; i < p.environment_count; ++i) {
    texts.push_back(text_of(p.environment[i].name));
    texts.push_back(text_of(p.environment[i].value));
  }
  if (device_)
    for (const auto& [name, value] : device_->environment()) {
      texts.push_back(name);
      texts.push_back(value);
    }
  return texts;
}

Answer PluginLibrary::obstacle() const {
  if (!mode_changes_.empty())
    return {Outcome::failed, "loading it left the processor's mode changed: " + mode_changes_ +
                                 "; is it linked with -ffast-math?"};
  if (!why_no_device_.empty()) return {Outcome::unsupported, why_no_device_};
  return {};
}

Answer PluginLibrary::asked(PluginCall& call) const {
  call.seal();
  Reason reason;
  int status = OPBOUND_OK;
  std::size_t workspace = 0;
  std::string broke = guarded([&] {
    if (provider_.supports != nullptr)
      status = provider_.supports(call.get(), reason.data(), reason.size());
    if (status == OPBOUND_OK && provider_.workspace_size != nullptr)
      workspace = provider_.workspace_size(call.get());
  });
  if (broke.empty()) broke = call.tampering();
  if (!broke.empty()) return {Outcome::failed, broke + ", in supports() or workspace_size()"};
  Answer answer = answer_of(status, reason, false);
  if (answer.outcome == Outcome::done) answer.text = std::to_string(workspace);
  return answer;
}

Answer PluginLibrary::called(PluginCall& call) const {
  call.seal();
  Reason reason;
  int status = OPBOUND_OK;
  std::string broke =
      guarded([&] { status = provider_.run(call.get(), reason.data(), reason.size()); });
  if (broke.empty()) broke = call.tampering();
  if (!broke.empty()) return {Outcome::failed, broke};
  return answer_of(status, reason, provider_.supports != nullptr);
}

Answer PluginLibrary::support(const Request& request) const {
  if (Answer no = obstacle(); no.outcome != Outcome::done) return no;
  PluginCall call(request, nullptr);
  call.set_device(provider_.device, device_index_, device_ ? device_->stream() : nullptr);
  return asked(call);
}

Answer PluginLibrary::run(const Request& request, std::span<std::byte> memory) const {
  if (Answer no = obstacle(); no.outcome != Outcome::done) return no;
  PluginCall call(request, device_ ? device_->copy_there(memory) : memory.data());
  call.set_device(provider_.device, device_index_, device_ ? device_->stream() : nullptr);
  Answer answer = called(call);
  if (device_ && answer.outcome == Outcome::done) device_->copy_back(memory);
  return answer;
}

Answer PluginLibrary::start(Request request, std::span<const TensorView> views, void* stream,
                            const Workspace& workspace) const {
  if (Answer no = obstacle(); no.outcome != Outcome::done) return no;
  void* scratch = nullptr;
  if (provider_.supports != nullptr || provider_.workspace_size != nullptr) {
    PluginCall question(request, views, nullptr);
    question.set_device(provider_.device, device_index_, stream);
    const Answer bytes = asked(question);
    if (bytes.outcome != Outcome::done) return bytes;
    request.workspace_bytes = whole_number(bytes.text).value();
    if (request.workspace_bytes > 0) scratch = workspace(request.workspace_bytes);
  }
  PluginCall call(request, views, scratch);
  call.set_device(provider_.device, device_index_, stream);
  return called(call);
}

}  // namespace opbound::detail
