// What two runs differ in beside their outputs, as far as their records tell.
#include <algorithm>
#include <map>
#include <set>

#include "reports/compare.hpp"
#include "reports/error.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

const std::string plugin_file = "plugin_file";

/// Entries of an environment that change together, under the name of what is upgraded. Others are
/// things of their own; the capability says no more than the device.
std::string thing_of(const std::string& entry, const std::string& value) {
  if (entry == "plugin") return plugin_file;
  if (entry == "cuda_driver_api") return "driver";
  if (entry == "cuda_runtime" || (entry == "compiler" && value.starts_with("nvcc"))) return "cuda";
  return entry == "compute_capability" ? "" : entry;
}

/// "v3.7.1", but not "8" or "AVX512": a release, not a setting.
bool has_version_number(std::string_view value) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 2; i < value.size(); ++i)
    if (value[i - 1] == '.' && is_digit(value[i - 2]) && is_digit(value[i])) return true;
  return false;
}

/// Things by name, as one record tells them.
std::map<std::string, std::string> things_of(const Record& r) {
  std::map<std::string, std::string> things;
  const auto add = [&](const std::string& name, const std::string& value) {
    std::string& known = things[name];
    if (!value.empty() && known != value) known += (known.empty() ? "" : ", ") + value;
  };
  const bool is_file = r.provider == "file";  // of `opbound check`: its environment names files
  // A version that a library of the environment has too is that library's; our own is the commit's.
  const bool has_version = r.provider == "own" || r.provider_version.empty() ||
                           std::ranges::any_of(r.environment, [&](const auto& entry) {
                             return entry.second.starts_with(r.provider_version);
                           });
  if (!has_version) add(r.provider.empty() ? "provider_version" : r.provider, r.provider_version);
  for (const auto& [entry, value] : r.environment) {
    // "torch mkl v3.7.1": a library that comes with torch
    const bool is_part = entry.starts_with(r.provider + " ") && has_version_number(value);
    const std::string thing = is_file ? "files" : is_part ? r.provider : thing_of(entry, value);
    const std::string part = is_file   ? entry + "="
                             : is_part ? entry.substr(r.provider.size() + 1) + " "
                                       : "";
    if (!thing.empty()) add(thing, part + value);
  }
  add("provider", r.provider);
  add("device", r.device);
  add("commit", r.commit);
  add("contract", r.contract);
  add("suite", r.suite.substr(r.suite.rfind('/') + 1));
  add("input", r.inputs.input);
  return things;
}

constexpr int of_a_library = 0;

/// What may be upgraded, what an upgrade is unlikely to be, and what it can hardly be. Any other
/// thing is a library, or whose kernels they are with their version.
int unlikelihood(const std::string& thing) {
  static const std::map<std::string, int> known{
      {"files", 1},    {plugin_file, 1}, {"provider", 2}, {"cuda", 3}, {"driver", 4},
      {"device", 5},   {"compiler", 6},  {"mpfr", 7},     {"gmp", 7},  {"commit", 8},
      {"contract", 9}, {"suite", 10},    {"input", 11}};
  const auto found = known.find(thing);
  return found == known.end() ? of_a_library : found->second;
}

std::string joined(const std::set<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : " | ") + value;
  return text;
}

std::string listed(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

void require_to_differ(const Comparison& c, const std::string& upgrade) {
  if (upgrade.empty()) return;
  const auto found = std::ranges::find(c.told, upgrade, &Told::name);
  if (found != c.told.end() && found->differs) return;
  std::vector<std::string> differing;
  for (const Told& told : c.differences()) differing.push_back(told.name);
  const std::string what = found == c.told.end() ? "no record tells of a '" + upgrade + "'"
                                                 : upgrade + " is " + found->before + " in both";
  throw InputError(
      "--upgrade", what,
      differing.empty() ? "two runs that differ" : "what differs: " + listed(differing, ", "));
}

}  // namespace

namespace detail {

std::string input_without_paths(const std::string& input) {
  constexpr std::string_view start = "file(";
  std::string text;
  std::size_t from = 0;
  for (auto at = input.find(start); at != std::string::npos; at = input.find(start, from)) {
    text += input.substr(from, at + start.size() - from);
    from = std::min(input.find_first_of(",)", at), input.size());
  }
  return text + input.substr(from);
}

std::vector<Told> told_by(std::span<const ComparedCheck> checks) {
  struct Values {
    std::set<std::string> before, after;
    bool differ = false;
  };
  std::map<std::string, Values> all;
  for (const ComparedCheck& check : checks) {
    if (!is_compared(check.change)) continue;
    std::map<std::string, Values> of_check;
    for (const Record* r : check.before)
      for (auto& [name, value] : things_of(*r)) of_check[name].before.insert(value);
    for (const Record* r : check.after)
      for (auto& [name, value] : things_of(*r)) of_check[name].after.insert(value);
    // a case that failed as a whole was judged by none
    if (check.before.front()->contract.empty() || check.after.front()->contract.empty())
      of_check.erase("contract");
    for (auto& [name, of] : of_check) {
      Values& values = all[name];
      const bool differ = of.before != of.after;
      if (values.differ && !differ) continue;  // only what differs is shown then
      if (differ && !values.differ) values = {};
      values.differ = differ;
      values.before.merge(of.before);
      values.after.merge(of.after);
    }
  }
  // Where a plug-in lies says something only where no version tells two of them apart.
  const bool has_other_version = std::ranges::any_of(all, [](const auto& thing) {
    return thing.second.differ && unlikelihood(thing.first) == of_a_library;
  });
  if (has_other_version) all.erase(plugin_file);
  std::vector<Told> told;
  for (const auto& [name, values] : all)
    told.push_back({name, joined(values.before), joined(values.after), values.differ});
  // What one of the runs does not know at all came with something else.
  std::ranges::stable_sort(told, {}, [](const Told& t) {
    return std::pair(t.before.empty() || t.after.empty(), unlikelihood(t.name));
  });
  return told;
}

}  // namespace detail

std::vector<std::string> tellable_names(const Comparison& comparison) {
  std::set<std::string> names{"commit",    "compiler", "contract", "cuda",  "device",
                              "driver",    "files",    "gmp",      "input", "mpfr",
                              plugin_file, "provider", "suite"};
  for (const Told& told : comparison.told) names.insert(told.name);
  return {names.begin(), names.end()};
}

std::string text_of(const Told& told, std::string_view arrow) {
  const bool unicode = arrow != "->";
  const auto shown = [&](const std::string& value) -> std::string {
    constexpr std::size_t most = 100;  // columns of a list that nobody reads to its end
    return value.empty() ? "not told" : shortened(printable(value, unicode), most, unicode);
  };
  return told.name + " " + shown(told.before) + " " + std::string(arrow) + " " + shown(told.after);
}

void require_one_upgrade(const Comparison& comparison, const Permission& permission) {
  require_to_differ(comparison, permission.upgrade);
  if (contains(permission.allowed, "all")) return;
  std::vector<Told> others = comparison.differences();
  std::erase_if(others, [&](const Told& told) {
    return told.name == permission.upgrade || contains(permission.allowed, told.name);
  });
  const bool upgrade_is_left = permission.upgrade.empty() && !others.empty();
  if (others.size() <= (upgrade_is_left ? 1U : 0U)) return;
  std::vector<std::string> words, allow;
  for (const Told& told : comparison.differences()) words.push_back(text_of(told, "->"));
  for (std::size_t i = upgrade_is_left ? 1 : 0; i < others.size(); ++i)
    allow.push_back(others[i].name);
  for (const std::string& name : permission.allowed) allow.push_back(name);
  const std::string names = listed(allow, ",");
  const bool is_one_word = names.find(' ') == std::string::npos;
  const std::string upgrade = permission.upgrade.empty() ? others.front().name : permission.upgrade;
  throw InputError("diff", "the runs differ in more than one thing: " + listed(words, "; "),
                   "the upgrade alone; if it is " + upgrade +
                       " and the rest may differ too: --allow " +
                       (is_one_word ? names : "'" + names + "'") + ", or --allow all");
}

}  // namespace opbound
