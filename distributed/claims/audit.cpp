#include "distributed/claims/audit.hpp"

#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "distributed/claims/experiment.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "suites/folder.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_toml.hpp"

namespace opbound::claims {
namespace {

using opbound::detail::TomlTable;
using opbound::detail::TomlValue;

constexpr std::array<std::string_view, 10> keys{"name",   "kind", "text",   "documented", "reason",
                                                "source", "set",  "pinned", "without",    "with"};
constexpr std::array<std::string_view, 2> kinds{"setting", "seed"};
constexpr int starts = 6;  // two equal sets of three strings have one order by chance: 6^-5

Environment variables_of(const TomlValue& value) {
  Environment all;
  for (const TomlValue::Entry& e : value.entries()) all.emplace_back(e.key, e.value.text());
  return all;
}

Setting read_setting(const TomlValue& value) {
  const TomlTable table(value, keys);
  Setting s;
  s.place = value.place();
  s.name = table.at("name").text();
  s.kind = kinds[table.at("kind").place_in(kinds, "kind")];
  s.text = table.at("text").text();
  s.documented = static_cast<Effect>(table.at("documented").place_in(effect_names, "effect"));
  s.reason = table.at("reason").text();
  if (const TomlValue* source = table.find("source")) s.source = source->text();
  if (const TomlValue* set = table.find("set")) s.trial.environment = variables_of(*set);
  if (const TomlValue* pinned = table.find("pinned")) s.trial.is_pinned = pinned->flag();
  if (const TomlValue* without = table.find("without")) s.trial.without = without->text();
  if (const TomlValue* with = table.find("with")) s.trial.with = with->text();
  if (s.trial.without.empty() != s.trial.with.empty())
    value.refuse("a program without the setting or with it alone", "both, without and with");
  if (s.documented != Effect::not_testable && s.source.empty())
    value.refuse("an effect that is documented nowhere", "key source");
  return s;
}

/// Holds this process, and those it starts, to one processor while it lives.
class Pinned {
 public:
  Pinned() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_)) {
        CPU_SET(cpu, &one);
        break;
      }
    if (sched_setaffinity(0, sizeof one, &one) != 0)
      throw Unavailable("a process may not be held to one processor here");
  }
  ~Pinned() { sched_setaffinity(0, sizeof before_, &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_{};
};

std::size_t distinct(const std::vector<std::string>& outputs) {
  return std::set<std::string>(outputs.begin(), outputs.end()).size();
}

void try_python(const Setting& s, const Tried& tried, Audited& a) {
  const std::size_t without = distinct(tried.run_python(s.trial.without, starts));
  const std::size_t with = distinct(tried.run_python(s.trial.with, starts));
  a.is_tried = true;
  a.is_changing = without > 1 && with == 1;
  a.basis = "tried: " + std::to_string(without) + " outputs of " + std::to_string(starts) +
            " starts without it, " + std::to_string(with) + " with it";
}

void try_training(const Setting& s, const Tried& tried, Audited& a) {
  a.is_changing = tried.changes_training(s.trial);
  a.is_tried = true;
  a.basis = a.is_changing ? "tried: a training run of this program ends in other bits"
                          : "tried: a training run of this program ends in the same bits";
}

Effect effect_of_trial(const Audited& a) {
  const Effect d = a.setting.documented;
  if (a.is_changing) return d == Effect::order ? Effect::order : Effect::bits;
  if (a.setting.trial.is_python()) return Effect::placebo;
  return d == Effect::order || d == Effect::bits ? Effect::not_testable
         : d == Effect::not_testable             ? Effect::placebo
                                                 : d;
}

}  // namespace

std::vector<Setting> read_settings(const std::string& path) {
  const toml::table file = opbound::detail::parse_toml(path);
  const TomlValue root(file, path, path);
  constexpr std::array<std::string_view, 1> known{"setting"};
  const TomlTable table(root, known);
  std::vector<Setting> settings;
  for (const TomlValue& value : table.at("setting").list("[[setting]] tables"))
    settings.push_back(read_setting(value));
  return settings;
}

std::vector<Setting> committed_settings() {
  const std::filesystem::path name = std::filesystem::path("claims") / "audit" / "settings.toml";
  const std::filesystem::path suites = suites_folder(name);
  if (suites.empty())
    throw InputError("env",
                     "no suites/claims/audit/settings.toml here, beside the program or above",
                     "that file");
  return read_settings((suites / name).string());
}

Tried by_processes(const std::string& device) {
  Tried tried;
  tried.changes_training = [device](const Trial& trial) {
    const auto hash = [&](const Environment& environment) {
      return training_hash("fp32 dropout=0.1", 3, device, environment);
    };
    const std::string without = hash({});
    if (!trial.is_pinned) return hash(trial.environment) != without;
    const Pinned pinned;
    return hash(trial.environment) != without;
  };
  tried.run_python = [](const std::string& program, int times) {
    std::vector<std::string> outputs;
    for (int i = 0; i < times; ++i) try {
        outputs.push_back(output_of("/usr/bin/env", {"python3", "-c", program}, {}));
      } catch (const ProviderFailure&) {
        throw Unavailable("python3, or a package of it, is not here");
      }
    return outputs;
  };
  return tried;
}

Audited audit(const Setting& setting, const Tried& tried) {
  Audited a;
  a.setting = setting;
  const bool has_trial = setting.trial.is_python() || setting.trial.is_training();
  try {
    if (setting.trial.is_python())
      try_python(setting, tried, a);
    else if (setting.trial.is_training())
      try_training(setting, tried, a);
  } catch (const Unavailable& e) {
    a.basis = std::string("not tried: ") + e.what();
  }
  if (a.is_tried) {
    a.effect = effect_of_trial(a);
    a.basis += "; " + setting.reason;
    return a;
  }
  a.effect = setting.documented;
  a.basis += (has_trial ? "; " : "") +
             (setting.source.empty() ? setting.reason : "documented: " + setting.reason);
  return a;
}

std::string audit_table(const std::vector<Audited>& all, const Terminal& terminal) {
  Table table({{"setting", false, 24},
               {"kind"},
               {"effect", false, 10},
               {"why", false, 40},
               {"source", false, 20}});
  for (const Audited& a : all)
    table.add_row({{a.setting.name},
                   {a.setting.kind},
                   {std::string(effect_names[static_cast<std::size_t>(a.effect)])},
                   {a.basis},
                   {a.setting.source}});
  std::string text = table.terminal(terminal);
  for (std::size_t e = 0; e < effect_names.size(); ++e)
    text.append(e == 0 ? "" : ", ")
        .append(effect_names[e])
        .append(" ")
        .append(std::to_string(std::count_if(all.begin(), all.end(), [&](const Audited& a) {
          return a.effect == static_cast<Effect>(e);
        })));
  return text + "\n";
}

std::string audit_json(const Audited& a) {
  nlohmann::ordered_json json{{"schema", 1},
                              {"kind", "setting"},
                              {"name", a.setting.name},
                              {"of", a.setting.kind},
                              {"text", a.setting.text},
                              {"effect", effect_names[static_cast<std::size_t>(a.effect)]},
                              {"tried", a.is_tried},
                              {"why", a.basis}};
  if (!a.setting.source.empty()) json["source"] = a.setting.source;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace opbound::claims
