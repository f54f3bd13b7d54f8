#include "ops/providers/plugin.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "ops/providers/plugin_described.hpp"
#include "ops/providers/plugin_process.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using detail::Answer;
using detail::Description;
using detail::Outcome;
using detail::PluginProcess;
using detail::Step;

class Plugin final : public detail::DescribedPlugin {
 public:
  Plugin(const std::string& path, const PluginOptions& options)
      : Plugin(std::make_unique<PluginProcess>(detail::PluginSetup{
                   fs::absolute(path).string(), options.seconds, options.device}),
               options.called.empty() ? path : options.called) {}

  void run(const Op& op, const Call& call) const override {
    if (const std::string why = absence(); !why.empty()) throw Unavailable(why);
    if (!call.forward.empty()) run_pass(op, call, false, call.forward);
    if (!call.backward.empty()) run_pass(op, call, true, call.backward);
  }

 private:
  Plugin(std::unique_ptr<PluginProcess> process, const std::string& called)
      : DescribedPlugin(loaded(*process), called), process_(std::move(process)) {}

  static Description loaded(PluginProcess& process) {
    const Answer answer = process.ask(Step::load);
    const std::vector<std::string> texts = detail::split(answer.text);
    if (answer.outcome == Outcome::not_usable)
      throw NotAPlugin(texts.empty() ? "cannot be used" : texts[0],
                       texts.size() < 2 ? "a plug-in" : texts[1]);
    if (answer.outcome != Outcome::done)
      throw NotAPlugin("cannot be loaded: " + answer.text, "a plug-in that loads");
    return Description(texts);
  }

  void run_pass(const Op& op, const Call& call, bool is_backward,
                const std::vector<TensorView>& views) const {
    detail::Request request = detail::make_request(op, call, is_backward, views);
    std::uint64_t workspace = 0;
    if (about_.asks) {
      std::memcpy(process_->memory(sizeof request).data(), &request, sizeof request);
      const std::string told = asked(Step::support);
      const std::optional<std::uint64_t> bytes = detail::whole_number(told);
      if (!bytes) throw ProviderFailure(name() + ": its workspace is no number of bytes");
      workspace = *bytes;
    }
    const std::span<std::byte> memory =
        process_->memory(detail::place_workspace(request, workspace));
    detail::fill_memory(request, views, memory);
    asked(Step::run);
    const std::string wrong = detail::trespass(request, views, memory);
    if (!wrong.empty()) {
      process_->discard();
      throw ProviderFailure(name() + ": " + wrong);
    }
    detail::take_outputs(request, views, memory);
  }

  std::string asked(Step step) const {
    Answer answer = process_->ask(step);
    if (answer.outcome == Outcome::not_usable)
      std::replace(answer.text.begin(), answer.text.end(), '\0', ' ');
    if (answer.outcome == Outcome::unsupported) throw Unavailable(name() + ": " + answer.text);
    if (answer.outcome != Outcome::done) throw ProviderFailure(name() + ": " + answer.text);
    return answer.text;
  }

  std::unique_ptr<PluginProcess> process_;
};

}  // namespace

std::unique_ptr<Provider> plugin_provider(const std::string& path, const PluginOptions& options) {
  detail::require_file(path);
  return std::make_unique<Plugin>(path, options);
}

}  // namespace opbound
