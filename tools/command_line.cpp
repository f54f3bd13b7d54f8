#include "tools/command_line.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "generated/version.hpp"
#include "ops/providers/plugin.hpp"
#include "reports/error.hpp"
#include "reports/table.hpp"
#include "suites/folder.hpp"
#include "suites/tensor_file.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> interrupted = false;  // set on any thread, read by all workers
static_assert(decltype(interrupted)::is_always_lock_free, "what a signal handler may set");

extern "C" void note_interrupt(int) { interrupted = true; }

/// Stands for a device that is not here.
class Absent : public Provider {
 public:
  Absent(std::string device, std::string why) : device_(std::move(device)), why_(std::move(why)) {}

  std::string name() const override { return "own"; }
  std::string version() const override { return opbound::version; }
  std::string device() const override { return device_; }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  Contract contract(const Op&, std::vector<int> variants) const override {
    Contract own;
    own.variants = std::move(variants);
    return own;
  }
  void run(const Op&, const Call&) const override { throw Unavailable(why_); }
  std::string absence() const override { return why_; }

 private:
  std::string device_, why_;
};

/// Stands for a plug-in of this project that was not built.
class AbsentPlugin final : public Absent {
 public:
  AbsentPlugin(std::string name, const std::string& file)
      : Absent("cpu", name + ": this build has no " + file), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::string version() const override { return "none"; }
  bool is_foreign() const override { return true; }
  std::vector<int> variants(const Op&, Direction, const AttributeBytes&, int) const override {
    return {};
  }

 private:
  std::string name_;
};

/// Is it one of the plug-ins whose sources this project has?
bool is_plugin_of_ours(const std::string& name) {
  const std::string names = std::string(" ") + OPBOUND_PLUGIN_NAMES + " ";
  return !name.empty() && name.find(' ') == std::string::npos &&
         names.find(" " + name + " ") != std::string::npos;
}

/// libopbound_torch.so; for a device libopbound_torch_cuda.so, if that was built.
fs::path file_of_ours(const std::string& name, const std::string& device) {
  std::error_code ignored;
  const fs::path start = program_folder() / ("libopbound_" + name);
  const fs::path for_device = start.string() + "_cuda.so";
  if (device != "cpu" && fs::exists(for_device, ignored)) return for_device;
  return start.string() + ".so";
}

}  // namespace

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::vector<std::string> suite_files(const std::string& folder) {
  const fs::path place = folder.empty() ? suites_folder() : fs::path(folder);
  if (place.empty()) throw InputError("", "no suites found", "suite files, or --suites FOLDER");
  std::error_code error;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, error))
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  if (error) throw InputError(place.string(), error.message(), "a folder of suites");
  if (files.empty()) throw InputError(place.string(), "no suites", "files <op>.toml");
  std::sort(files.begin(), files.end());
  return files;
}

std::string suite_file_named(const std::string& name) {
  const fs::path file = suites_folder() / name;
  std::error_code ignored;
  return file.has_parent_path() && fs::is_regular_file(file, ignored) ? file.string() : "";
}

namespace {

/// The N of "cuda:N"; 0 for "cpu" and "cuda".
int device_number(const std::string& device) {
  if (device == "cpu" || device == "cuda") return 0;
  int index = 0;
  const std::string_view number =
      std::string_view(device).substr(std::min<std::size_t>(5, device.size()));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  const bool is_indexed = device.starts_with("cuda:") && error == std::errc{} && index >= 0 &&
                          end == number.data() + number.size();
  if (!is_indexed) throw InputError("--device", "'" + device + "'", "cpu, cuda or cuda:N");
  return index;
}

}  // namespace

std::unique_ptr<Provider> own_provider(const std::string& device) {
  const int index = device_number(device);
  if (device == "cpu") return own_host_provider();
  try {
    return own_device_provider(index);
  } catch (const Unavailable& e) {
    return std::make_unique<Absent>(device, e.what());
  }
}

std::unique_ptr<Provider> present_provider(const std::string& device) {
  std::unique_ptr<Provider> provider = own_provider(device);
  const std::string absence = provider->absence();
  if (!absence.empty()) throw InputError("--device", absence, "cpu");
  return provider;
}

namespace {

/// In this process where there is a place for it, else in one of its own.
std::unique_ptr<Provider> opened_plugin(const std::string& name, const std::string& device,
                                        double seconds, const std::optional<PluginPlace>& place) {
  PluginOptions options{seconds, device_number(device), {}};
  fs::path file = name;
  if (is_plugin_of_ours(name)) {
    options.called = name;
    file = file_of_ours(name, device);
    std::error_code ignored;
    if (!fs::exists(file, ignored))
      return std::make_unique<AbsentPlugin>(name, file.filename().string());
  }
  try {
    return place ? plugin_in_process(file.string(), *place, options.called)
                 : plugin_provider(file.string(), options);
  } catch (const NotAPlugin& e) {
    throw InputError("--provider", file.string() + ": " + e.what(), e.expected);
  }
}

}  // namespace

std::unique_ptr<Provider> named_plugin(const std::string& name, const std::string& device,
                                       double seconds) {
  return opened_plugin(name, device, seconds, std::nullopt);
}

std::unique_ptr<Provider> plugin_of_policy(const std::string& name, const std::string& device,
                                           const std::optional<PluginPlace>& place) {
  const char* const listed = std::getenv("OPBOUND_PLUGINS");
  const std::string names = std::string(":") + (listed == nullptr ? "" : listed) + ":";
  const bool is_listed =
      name.find(':') == std::string::npos && names.find(":" + name + ":") != std::string::npos;
  if (!is_plugin_of_ours(name) && !is_listed)
    throw InputError("policy", "its provider " + detail::in_quotes(name) + " is not known here",
                     std::string("own, ") + OPBOUND_PLUGIN_NAMES +
                         ", or a plug-in's file that OPBOUND_PLUGINS lists: its code will run");
  return opened_plugin(name, device, PluginOptions{}.seconds, place);
}

void ProviderOptions::add_to(CLI::App& command) {
  command
      .add_option("--provider", names,
                  std::string("Whose kernels: own, a plug-in of this project by its name (") +
                      OPBOUND_PLUGIN_NAMES + "), or a plug-in's file; repeat for several")
      ->type_name("own|NAME|FILE.so")
      ->allow_extra_args(false);
  command
      .add_option("--provider-timeout", seconds, "Stop a plug-in that takes longer for one call")
      ->type_name("SECONDS")
      ->check(between(1e-3, 1e6))
      ->capture_default_str();
  command
      .add_option("--device", device,
                  "cpu, cuda or cuda:N, which is also the device that a plug-in for CUDA gets")
      ->type_name("DEVICE")
      ->capture_default_str();
}

Providers named_providers(const ProviderOptions& options) {
  const auto& [names, seconds, device] = options;
  Providers providers(names.size());
  // plug-ins first: their processes have to be there before this one uses CUDA
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "own") continue;
    std::error_code ignored;
    if (names[i].find_first_of("./") == std::string::npos && !is_plugin_of_ours(names[i]) &&
        !fs::exists(names[i], ignored))
      throw InputError("--provider", "unknown provider '" + names[i] + "'",
                       std::string("own, ") + OPBOUND_PLUGIN_NAMES +
                           ", or a plug-in's file such as ./libmine.so");
    providers[i] = named_plugin(names[i], device, seconds);
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == "own") providers[i] = own_provider(device);
  return providers;
}

bool lacks_required(const std::vector<std::string>& required, const std::string& device,
                    std::span<const std::unique_ptr<Provider>> providers, bool tells) {
  bool lacks = false;
  for (const std::string& name : required) {
    std::string why = "neither a provider nor the device of this run";
    for (const auto& p : providers) {
      const bool is_device = (name == device || device.starts_with(name + ":")) &&
                             (!p->is_foreign() || p->device() != "cpu");
      if (is_device || name == p->name()) why = p->absence();
      if (why.empty()) break;
    }
    if (why.empty()) continue;
    lacks = true;
    if (tells)
      std::fprintf(stderr, "opbound: required %s is missing: %s\n", name.c_str(), why.c_str());
  }
  return lacks;
}

std::string words_of_program() {
  std::ostringstream words;
  words << std::ifstream("/proc/self/cmdline", std::ios::binary).rdbuf();
  const std::string all = words.str();
  return std::string(version) + all.substr(std::min(all.find('\0'), all.size()));
}

namespace {
/// A terminal's, what mpirun, timeout and batch systems send, and a terminal's that is closed.
constexpr std::array interrupts{SIGINT, SIGTERM, SIGHUP};
}  // namespace

std::function<std::string(const std::string&)> between(double low, double high) {
  return [low, high](const std::string& text) {
    double x = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, x);
    const bool is_one = error == std::errc{} && stop == end && x >= low && x <= high;
    return is_one ? std::string()
                  : fmt::format("'{}', expected a number from {} to {}", text, low, high);
  };
}

std::function<std::string(const std::string&)> seed_number() {
  return [](const std::string& text) {
    std::int64_t x = -1;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, x);
    const bool is_one = error == std::errc{} && stop == end && x >= 0;
    return is_one ? std::string() : fmt::format("'{}', expected a seed from 0 to 2^63 - 1", text);
  };
}

InterruptNoted::InterruptNoted() {
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int one : interrupts) {
    struct sigaction before {};
    sigaction(one, nullptr, &before);
    const bool is_kept_off = one == SIGHUP && before.sa_handler == SIG_IGN;  // by nohup
    if (!is_kept_off) sigaction(one, &action, nullptr);
  }
}

InterruptNoted::~InterruptNoted() {
  for (const int one : interrupts) {
    struct sigaction now {};
    sigaction(one, nullptr, &now);
    if (now.sa_handler != SIG_IGN) std::signal(one, SIG_DFL);
  }
}

bool InterruptNoted::has_come() { return interrupted; }

int tell(const std::vector<Record>& records, bool quiet) {
  const Summary summary = summary_of(records);
  const TableOptions as{TableStyle::terminal, true, Terminal::of(1)};
  print(quiet ? last_line(summary) + "\n" : error_table(records, as));
  return InterruptNoted::has_come() ? exit_interrupted : summary.exit_code();
}

}  // namespace opbound
