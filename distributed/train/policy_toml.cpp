// A policy's file, read strictly.
#include <algorithm>
#include <array>
#include <filesystem>

#include "distributed/train/policy_check.hpp"
#include "suites/folder.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_toml.hpp"

namespace opbound::train {
namespace {

namespace fs = std::filesystem;
using detail::TomlTable;
using detail::TomlValue;

constexpr std::array<std::string_view, 11> policy_keys{
    "base",       "master",  "stochastic",    "gradient",     "reduction", "reproducible_sum",
    "loss_scale", "dropout", "checkpointing", "stored_input", "rule"};
constexpr std::array<std::string_view, 5> scale_keys{"kind", "initial", "growth_factor",
                                                     "backoff_factor", "growth_interval"};
constexpr std::array<std::string_view, 7> rule_keys{"op",      "layers",   "precision", "gradient",
                                                    "variant", "provider", "attributes"};

constexpr std::array<std::string_view, 4> wide_formats{"fp64", "fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 7> formats{"fp64", "fp32", "tf32", "bf16",
                                                  "fp16", "e4m3", "e5m2"};

/// The attributes that say how an op computes. All others the model or the run decides.
struct Settable {
  std::string_view op;
  std::array<std::string_view, 4> attributes;
};
constexpr std::array<Settable, 8> settable{{
    {"matmul", {"splits"}},
    {"layer_norm", {"eps_format", "xhat_format"}},
    {"rms_norm", {"eps_format", "xhat_format"}},
    {"attention", {"p_format", "ds_format", "row_term", "tile"}},
    {"cross_entropy", {"recompute"}},
    {"dropout", {"bits"}},
    {"clip", {"eps"}},
    {"adamw", {"hyper_format"}},
}};

Format read_format(const TomlValue& v, std::span<const std::string_view> names) {
  return format_named(names[v.place_in(names, "format")]).value();
}

double read_between(const TomlValue& v, double low, double high, std::string_view expected) {
  const double x = v.number(expected);
  if (!(x > low && x < high)) v.refuse("a number out of range", expected);
  return x;
}

// ---- one [[rule]]

std::string read_op(const TomlValue& v) {
  std::vector<std::string> words{"head", "mlp"};
  for (const std::string_view op : ops_of_model()) words.emplace_back(op);
  for (const std::string_view op : ops_of_mlp()) words.push_back("mlp:" + std::string(op));
  for (const std::string_view op : ops_of_update()) words.emplace_back(op);
  words.emplace_back(cast_part);
  const std::vector<std::string_view> names(words.begin(), words.end());
  return words[v.place_in(names, "op")];
}

Precision read_precision(const TomlValue& v) {
  constexpr std::string_view expected =
      "storage:compute:output or one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2";
  const std::string text = v.text(expected);
  const auto precision = precision_named(text);
  if (!precision) v.refuse("unknown precision '" + text + "'", expected);
  if (!detail::has_kernel(precision->compute))
    v.refuse("no kernel computes in " + std::string(name_of(precision->compute)),
             "one of fp64, fp32, bf16, fp16");
  return *precision;
}

std::vector<int> read_layers(const TomlValue& v) {
  std::vector<int> layers;
  constexpr std::string_view expected = "layers from 0 on";
  constexpr std::int64_t most = 1 << 20;
  for (const TomlValue& one : v.one_or_list()) {
    const std::int64_t layer = one.whole(0, expected);
    if (layer > most) one.refuse(std::to_string(layer), expected);
    layers.push_back(static_cast<int>(layer));
  }
  return layers;
}

std::vector<std::pair<std::string, AttributeValue>> read_attributes(const TomlValue& v,
                                                                    const Op& op) {
  std::vector<std::string_view> known;
  for (const Settable& s : settable)
    if (s.op == op.name)
      for (const std::string_view a : s.attributes)
        if (!a.empty()) known.push_back(a);
  if (known.empty())
    v.refuse(std::string(op.name) + " has none that a policy decides", "no attributes");
  const TomlTable table(v, known);
  std::vector<std::pair<std::string, AttributeValue>> all;
  for (const TomlValue::Entry& entry : v.entries())
    for (const AttributeSpec& a : op.attributes) {
      if (a.name != entry.key) continue;
      const AttributeValue value = entry.value.attribute(a.expected);
      AttributeBytes bytes = op.default_attributes;
      if (!a.set(bytes, value)) {
        if (!entry.value.is_text()) entry.value.refuse_type(a.expected);
        entry.value.refuse("'" + entry.value.text() + "'", a.expected);
      }
      all.emplace_back(a.name, value);
    }
  return all;
}

OpRuleChange read_rule(const TomlValue& v) {
  const TomlTable table(v, rule_keys);
  OpRuleChange change;
  change.where = v.place();
  if (const TomlValue* op = table.find("op")) change.op = read_op(*op);
  if (const TomlValue* x = table.find("layers")) change.layers = read_layers(*x);
  if (const TomlValue* x = table.find("precision")) change.precision = read_precision(*x);
  if (const TomlValue* x = table.find("gradient")) change.gradient = read_format(*x, formats);
  if (const TomlValue* x = table.find("provider")) {
    change.provider = x->text("own, or a plug-in's name or file");
    if (change.provider->empty()) x->refuse("no provider", "own, or a plug-in's name or file");
  }
  if (change.op == cast_part)
    for (const std::string_view key : {"precision", "gradient", "variant", "attributes"})
      if (const TomlValue* x = table.find(key))
        x->refuse("of a cast, which follows from the ops beside it", "provider only");
  const Op* op = find_op(op_of(change.op));
  for (const std::string_view key : {"variant", "attributes"})
    if (const TomlValue* x = table.find(key); x != nullptr && op == nullptr)
      x->refuse("of no single op", "key op, the name of one");
  if (const TomlValue* x = table.find("variant")) {
    std::vector<std::string_view> names;
    for (const Variant& variant : op->variants) names.push_back(variant.name);
    change.variant = names[x->place_in(names, "variant")];
    if (op->name == "adamw" && *change.variant == "stochastic")
      x->refuse("adamw's variant stochastic", "stochastic = true, for the policy as a whole");
  }
  if (const TomlValue* x = table.find("attributes")) change.attributes = read_attributes(*x, *op);
  if (is_of_update(op_of(change.op)) && !change.layers.empty())
    table.at("layers").refuse("of " + change.op, "no layers: the update is of all of them at once");
  return change;
}

// ---- the rest

void read_loss_scale(const TomlValue& v, Policy& policy) {
  const TomlTable table(v, scale_keys);
  policy.loss_scale =
      static_cast<LossScale>(table.at("kind").place_in(loss_scale_names, "loss scale"));
  const auto find = [&](std::string_view key, bool has_effect) {
    const TomlValue* value = table.find(key);
    if (value != nullptr && !has_effect)
      value->refuse("without effect on a loss scale of this kind", "kind = \"dynamic\"");
    return value;
  };
  const bool scales = policy.loss_scale != LossScale::none;
  const bool is_dynamic = policy.loss_scale == LossScale::dynamic;
  if (const TomlValue* x = find("initial", scales))
    policy.initial_scale = read_between(*x, 0, fp32.largest(), "a positive number of fp32");
  if (const TomlValue* x = find("growth_factor", is_dynamic))
    policy.growth_factor = read_between(*x, 1, fp32.largest(), "a number above 1");
  if (const TomlValue* x = find("backoff_factor", is_dynamic))
    policy.backoff_factor = read_between(*x, 0, 1, "a number between 0 and 1");
  if (const TomlValue* x = find("growth_interval", is_dynamic))
    policy.growth_interval = x->whole(1, "a whole number of at least 1");
}

void read_into(const TomlTable& table, Policy& policy) {
  const auto format = [&](std::string_view key, Format& to) {
    if (const TomlValue* v = table.find(key)) to = read_format(*v, wide_formats);
  };
  const auto flag = [&](std::string_view key, bool& to) {
    const TomlValue* v = table.find(key);
    if (v == nullptr) return;
    if (!v->is_flag()) v->refuse_type("true or false");
    to = v->flag();
  };
  format("master", policy.master);
  format("gradient", policy.gradient);
  flag("reproducible_sum", policy.reproducible_sum);
  format("reduction", policy.reduction);
  if (const TomlValue* v = table.find("reduction"); v != nullptr && policy.reproducible_sum)
    v->refuse("a reduction beside reproducible_sum", "the format of `gradient`, which travels");
  format("stored_input", policy.stored_input);
  flag("stochastic", policy.stochastic);
  if (policy.stochastic && policy.master.bits() > 16)
    (table.find("stochastic") != nullptr ? table.at("stochastic") : table.at("master"))
        .refuse("stochastic rounding of " + std::string(name_of(policy.master)),
                "a master of bf16 or fp16, where a store rounds");
  if (const TomlValue* v = table.find("loss_scale")) read_loss_scale(*v, policy);
  if (const TomlValue* v = table.find("dropout"))
    if (policy.dropout = v->number("a share from 0 on, below 1");
        !(policy.dropout >= 0 && policy.dropout < 1))
      v->refuse("a number out of range", "a share from 0 on, below 1");
  if (const TomlValue* v = table.find("checkpointing"))
    policy.checkpointing =
        static_cast<Checkpointing>(v->place_in(checkpointing_names, "checkpointing"));
  if (const TomlValue* v = table.find("rule"))
    for (const TomlValue& one : v->list("[[rule]] tables")) policy.rules.push_back(read_rule(one));
}

constexpr int longest_chain = 8;  // of policies that build on each other

const fs::path ready_folder = fs::path("training") / "policies";

bool names_a_file(const std::string& word) { return word.find_first_of("./") != std::string::npos; }

std::string policy_expected(const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  return (known.empty() ? "" : detail::one_of(known) + ", or ") +
         "a file that exists, named with a '.' or '/'";
}

fs::path ready_file(const std::string& name) {
  const std::vector<std::string> names = ready_policies();
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (known.empty())
    throw InputError("", "no folder suites/training/policies here, beside the program or above",
                     "that folder, or a policy's file");
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw InputError("", "unknown policy " + detail::in_quotes_with_suggestion(name, known),
                     policy_expected(names));
  return suites_folder(ready_folder) / ready_folder / (name + ".toml");
}

Policy read_chain(const fs::path& file, int depth) {
  const std::string path = file.string();
  const toml::table root = detail::parse_toml(path);
  const TomlTable table(TomlValue(root, path, "policy"), policy_keys);
  Policy policy;
  if (const TomlValue* v = table.find("base")) {
    const std::string base = v->text("a policy's name, or its file");
    if (depth == longest_chain)
      v->refuse("the " + std::to_string(longest_chain) + "th policy on which one builds",
                "fewer, and none that builds on itself");
    const fs::path base_file = v->naming_place(
        [&] { return names_a_file(base) ? file.parent_path() / base : ready_file(base); });
    policy = read_chain(base_file, depth + 1);
  }
  policy.name = file.stem().string();
  read_into(table, policy);
  return policy;
}

}  // namespace

Policy read_policy(const std::string& name_or_file) {
  const bool is_file = names_a_file(name_or_file);
  std::error_code ignored;  // what cannot be looked at cannot be opened either
  if (is_file && fs::status(name_or_file, ignored).type() == fs::file_type::not_found)
    throw InputError("", "no policy's file '" + name_or_file + "'",
                     policy_expected(ready_policies()));
  Policy policy = read_chain(is_file ? fs::path(name_or_file) : ready_file(name_or_file), 0);
  require_possible(policy);
  return policy;
}

std::vector<std::string> ready_policies() {
  std::vector<std::string> names;
  const fs::path folder = suites_folder(ready_folder);
  std::error_code ignored;
  if (!folder.empty())
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / ready_folder, ignored))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> own_policies() {
  std::vector<std::string> names = ready_policies();
  std::erase_if(names, [](const std::string& name) {
    const Policy policy = read_policy(name);
    return std::any_of(policy.rules.begin(), policy.rules.end(), [](const OpRuleChange& rule) {
      return rule.provider.value_or("own") != "own";
    });
  });
  return names;
}

}  // namespace opbound::train
