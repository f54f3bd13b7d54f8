// A plug-in for CUDA in this process: its tensors stay where they are.
#include <algorithm>
#include <filesystem>

#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_described.hpp"
#include "ops/providers/plugin_library.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using detail::Answer;
using detail::Outcome;

class PluginInProcess final : public detail::DescribedPlugin {
 public:
  PluginInProcess(const std::string& path, PluginPlace place, const std::string& called)
      : PluginInProcess(std::make_unique<detail::PluginLibrary>(
                            detail::PluginSetup{fs::absolute(path).string(), 0, place.device}),
                        std::move(place), called.empty() ? path : called) {}

  void run(const Op&, const Call&) const override {
    throw Unavailable(name() + " runs on tensors of the device here");
  }

  bool is_on_device() const override { return true; }
  bool is_replayable() const override { return library_->is_replayable(); }
  void run_on_device(const Op& op, const Call& call) const override {
    if (!call.forward.empty()) start(op, call, false, call.forward);
    if (!call.backward.empty()) start(op, call, true, call.backward);
  }

 private:
  PluginInProcess(std::unique_ptr<detail::PluginLibrary> library, PluginPlace place,
                  const std::string& called)
      : DescribedPlugin(detail::Description(library->description()), called),
        library_(std::move(library)),
        place_(std::move(place)) {
    if (!library_->is_for_cuda())
      throw NotAPlugin("is for the CPU", "a plug-in for CUDA, as the run is on a device");
  }

  void start(const Op& op, const Call& call, bool is_backward,
             const std::vector<TensorView>& views) const {
    const Answer answer = library_->start(detail::make_request(op, call, is_backward, views), views,
                                          place_.stream, place_.workspace);
    if (answer.outcome == Outcome::unsupported) throw Unavailable(name() + ": " + answer.text);
    if (answer.outcome != Outcome::done) throw ProviderFailure(name() + ": " + answer.text);
  }

  std::unique_ptr<detail::PluginLibrary> library_;
  PluginPlace place_;
};

}  // namespace

std::unique_ptr<Provider> plugin_in_process(const std::string& path, const PluginPlace& place,
                                            const std::string& called) {
  detail::require_file(path);
  return std::make_unique<PluginInProcess>(path, place, called);
}

}  // namespace opbound
