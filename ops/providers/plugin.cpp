#include "ops/providers/plugin.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "ops/providers/plugin_process.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using detail::Answer;
using detail::Outcome;
using detail::Step;

constexpr std::array<std::string_view, 12> function_names{
    "exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "erfc", "sin", "cos", "rsqrt", "pow"};
static_assert(function_names.size() == FunctionErrors{}.ulp.size());

/// One kernel that the plug-in lists.
struct Listed {
  const Op* op = nullptr;
  bool forward = true, backward = true;
  std::vector<int> variants;  ///< it is one of them

  /// Those that the attributes allow.
  std::vector<int> allowed(const AttributeBytes& attributes) const {
    std::vector<int> all;
    std::copy_if(variants.begin(), variants.end(), std::back_inserter(all),
                 [&](int v) { return op->allows(attributes, v); });
    return all;
  }
};

bool contains(const std::vector<int>& all, int one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::vector<int> every_variant(const Op& op) {
  std::vector<int> all;
  for (std::size_t v = 0; v < op.variants.size(); ++v) all.push_back(static_cast<int>(v));
  return all;
}

std::vector<int> read_variants(const Op& op, std::string_view text) {
  if (text.empty()) return every_variant(op);
  std::vector<int> variants;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('|'), text.size());
    const std::string name(text.substr(0, end));
    variants.push_back(op.variant_named(name));
    if (variants.back() < 0)
      throw NotAPlugin("lists variant '" + name + "' of " + std::string(op.name),
                       "one that `opbound list variants` prints");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return variants;
}

Listed read_listed(const std::string& op, const std::string& direction,
                   const std::string& variants) {
  Listed listed;
  listed.op = find_op(op);
  if (listed.op == nullptr)
    throw NotAPlugin("lists op '" + op + "'", "one that `opbound list ops` prints");
  if (!direction.empty() && direction != "forward" && direction != "backward")
    throw NotAPlugin("lists direction '" + direction + "' of " + op, "forward, backward or NULL");
  listed.forward = direction != "backward";
  listed.backward = direction != "forward";
  listed.variants = read_variants(*listed.op, variants);
  return listed;
}

void read_function(const std::string& name, const std::string& ulp, FunctionErrors& errors) {
  const auto place = std::find(function_names.begin(), function_names.end(), name);
  if (place == function_names.end())
    throw NotAPlugin("lists function '" + name + "'", "one that ops/provider.h names");
  double& error = errors.ulp[static_cast<std::size_t>(place - function_names.begin())];
  const auto read = std::from_chars(ulp.data(), ulp.data() + ulp.size(), error);
  if (read.ec != std::errc{} || !(error >= 0) || !std::isfinite(error))
    throw NotAPlugin("lists function " + name + " with an error of " + ulp + " ulp",
                     "a number from 0 on");
}

/// What a plug-in says of itself; PluginLibrary::description writes it.
struct Description {
  std::string name, version, device, why_no_device;
  bool asks = false;  ///< has it supports() or workspace_size()?
  std::vector<Listed> listed;
  FunctionErrors functions = cuda_function_errors;
  std::vector<std::pair<std::string, std::string>> environment;

  explicit Description(const std::vector<std::string>& texts) {
    auto at = texts.begin();
    const auto next = [&] { return *at++; };
    name = next();
    version = next();
    device = next();
    why_no_device = next();
    asks = !next().empty();
    if (name == "own" || name == "file")
      throw NotAPlugin("is named '" + name + "', which is opbound's", "another name");
    for (auto left = std::stoull(next()); left > 0; --left) {
      const std::string op = next(), direction = next();
      listed.push_back(read_listed(op, direction, next()));
    }
    for (auto left = std::stoull(next()); left > 0; --left) {
      const std::string function = next();
      read_function(function, next(), functions);
    }
    while (at != texts.end()) {
      const std::string entry = next();
      const auto is_it = [&](const auto& other) { return other.first == entry; };
      if (entry.empty() || entry == plugin_file_key ||
          std::any_of(environment.begin(), environment.end(), is_it))
        throw NotAPlugin("has the environment entry '" + entry + "'",
                         "names of its own, each once");
      environment.emplace_back(entry, next());
    }
  }
};

class Plugin final : public Provider {
 public:
  Plugin(const std::string& path, const PluginOptions& options)
      : process_({fs::absolute(path).string(), options.seconds, options.device}), about_(loaded()) {
    about_.environment.emplace_back(plugin_file_key,
                                    options.called.empty() ? path : options.called);
  }

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
    const Listed any{&op, true, true, every_variant(op)};
    const auto row = [&](bool is_backward) -> const Listed* {
      if (about_.listed.empty()) return &any;
      for (const Listed& l : about_.listed)
        if (l.op == &op && (is_backward ? l.backward : l.forward) &&
            contains(l.allowed(attributes), variant))
          return &l;
      return nullptr;
    };
    const Listed* forward = direction == Direction::backward_local ? nullptr : row(false);
    const Listed* backward = direction == Direction::forward ? nullptr : row(true);
    if (direction != Direction::backward_full) {
      const Listed* one = direction == Direction::forward ? forward : backward;
      return one == nullptr ? std::vector<int>{} : one->allowed(attributes);
    }
    if (forward == nullptr || backward == nullptr) return {};
    const std::vector<int> both = forward->allowed(attributes);
    if (forward == backward) return both;
    // two kernels that may each be one of several have no bound of one variant for both passes
    return both.size() == 1 && both == backward->allowed(attributes) ? both : std::vector<int>{};
  }

  void run(const Op& op, const Call& call) const override {
    if (const std::string why = absence(); !why.empty()) throw Unavailable(why);
    if (!call.forward.empty()) run_pass(op, call, false, call.forward);
    if (!call.backward.empty()) run_pass(op, call, true, call.backward);
  }

 private:
  Description loaded() {
    const Answer answer = process_.ask(Step::load);
    const std::vector<std::string> texts = detail::split(answer.text);
    if (answer.outcome == Outcome::not_usable) throw NotAPlugin(texts.at(0), texts.at(1));
    if (answer.outcome != Outcome::done)
      throw NotAPlugin("cannot be loaded: " + answer.text, "a plug-in that loads");
    return Description(texts);
  }

  void run_pass(const Op& op, const Call& call, bool is_backward,
                const std::vector<TensorView>& views) const {
    detail::Request request = detail::make_request(op, call, is_backward, views);
    std::uint64_t workspace = 0;
    if (about_.asks) {
      std::memcpy(process_.memory(sizeof request).data(), &request, sizeof request);
      workspace = std::stoull(asked(Step::support));
    }
    const std::span<std::byte> memory =
        process_.memory(detail::place_workspace(request, workspace));
    detail::fill_memory(request, views, memory);
    asked(Step::run);
    const std::string wrong = detail::trespass(request, views, memory);
    if (!wrong.empty()) {
      process_.discard();
      throw ProviderFailure(name() + ": " + wrong);
    }
    detail::take_outputs(request, views, memory);
  }

  std::string asked(Step step) const {
    Answer answer = process_.ask(step);
    if (answer.outcome == Outcome::not_usable)
      std::replace(answer.text.begin(), answer.text.end(), '\0', ' ');
    if (answer.outcome == Outcome::unsupported) throw Unavailable(name() + ": " + answer.text);
    if (answer.outcome != Outcome::done) throw ProviderFailure(name() + ": " + answer.text);
    return answer.text;
  }

  mutable detail::PluginProcess process_;
  Description about_;
};

}  // namespace

std::unique_ptr<Provider> plugin_provider(const std::string& path, const PluginOptions& options) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored))
    throw NotAPlugin(fs::exists(path, ignored) ? "is no file" : "no such file", "a shared library");
  return std::make_unique<Plugin>(path, options);
}

}  // namespace opbound
