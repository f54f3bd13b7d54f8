#include "distributed/train/policy.hpp"

#include <algorithm>
#include <array>

#include "distributed/train/policy_check.hpp"
#include "reports/error.hpp"
#include "suites/suggest.hpp"

namespace opbound::train {
namespace {

constexpr std::string_view of_mlp = "mlp:";

Format compute_beside(const Format& f) { return f == fp64 ? fp64 : fp32; }

OpRule first_rule(const Policy& policy, std::string_view op) {
  OpRule rule;
  if (!is_of_update(op)) return rule;
  const Format compute = compute_beside(policy.master == fp64 ? fp64 : policy.gradient);
  rule.precision = {policy.gradient, compute, policy.gradient};
  return rule;
}

bool covers(const OpRuleChange& change, std::string_view part, int layer) {
  if (!change.layers.empty() &&
      std::find(change.layers.begin(), change.layers.end(), layer) == change.layers.end())
    return false;
  if (change.op.empty()) return part != cast_part && !is_of_update(op_of(part));
  if (change.op == "mlp") return part.starts_with(of_mlp);
  return change.op == part || change.op == op_of(part);
}

void apply(const OpRuleChange& change, OpRule& rule) {
  if (change.precision) rule.precision = *change.precision;
  if (change.gradient) rule.gradient = *change.gradient;
  if (change.variant) rule.variant = *change.variant;
  if (change.provider) rule.provider = *change.provider;
  for (const auto& given : change.attributes) {
    const auto same = std::find_if(rule.attributes.begin(), rule.attributes.end(),
                                   [&](const auto& a) { return a.first == given.first; });
    if (same == rule.attributes.end())
      rule.attributes.push_back(given);
    else
      same->second = given.second;
  }
}

}  // namespace

std::span<const std::string_view> ops_of_model() {
  static constexpr std::array<std::string_view, 11> names{
      "embedding", "layer_norm", "rms_norm", "matmul",        "rope",    "attention",
      "gelu",      "swiglu",     "dropout",  "cross_entropy", "residual"};
  return names;
}

std::span<const std::string_view> ops_of_update() {
  static constexpr std::array<std::string_view, 6> names{"unscale", "accumulate", "global_norm",
                                                         "clip",    "adamw",      "loss_scaler"};
  return names;
}

std::span<const std::string_view> ops_of_mlp() {
  static constexpr std::array<std::string_view, 3> names{"matmul", "gelu", "swiglu"};
  return names;
}

bool is_of_update(std::string_view op) {
  const auto names = ops_of_update();
  return std::find(names.begin(), names.end(), op) != names.end();
}

std::string_view op_of(std::string_view part) {
  if (part == "head") return "matmul";
  if (part == "gradient_sum") return "residual";
  return part.starts_with(of_mlp) ? part.substr(of_mlp.size()) : part;
}

OpRule Policy::rule(std::string_view part, int layer) const {
  OpRule rule = first_rule(*this, op_of(part));
  for (const OpRuleChange& change : rules)
    if (covers(change, part, layer)) apply(change, rule);
  return rule;
}

std::string Policy::place_of_provider(std::string_view part, int layer) const {
  std::string where;
  for (const OpRuleChange& change : rules)
    if (change.provider && covers(change, part, layer)) where = change.where;
  return where;
}

// ---- what goes with what

namespace {

/// The attributes that the rule names, on top of the op's own.
AttributeBytes attributes_of(const Op& op, const OpRule& rule) {
  AttributeBytes bytes = op.default_attributes;
  for (const auto& [name, value] : rule.attributes)
    for (const AttributeSpec& a : op.attributes)
      if (a.name == name) a.set(bytes, value);
  return bytes;
}

/// What of the rule the op cannot do with these attributes; empty if nothing.
std::string conflict(const Op& op, const OpRule& rule, const AttributeBytes& attributes) {
  const std::string_view wanted = op.refuses_storage(rule.precision.storage);
  if (!wanted.empty())
    return std::string(op.name) + " of " + std::string(name_of(rule.precision.storage)) +
           ", expected " + std::string(wanted);
  const int variant =
      rule.variant.empty() ? op.default_variant(attributes) : op.variant_named(rule.variant);
  const std::string named = std::string(op.name) + "'s variant " +
                            std::string(op.variants[static_cast<std::size_t>(variant)].name);
  if (!op.allows(attributes, variant)) {
    std::vector<std::string_view> allowed;
    for (std::size_t v = 0; v < op.variants.size(); ++v)
      if (op.allows(attributes, static_cast<int>(v))) allowed.push_back(op.variants[v].name);
    return named + " with the attributes that it gets, expected " + detail::one_of(allowed);
  }
  if (!op.fits(rule.precision, variant))
    return named + " has no kernel in " + name_of(rule.precision) +
           ", expected a precision or a variant that go together";
  return {};
}

/// Where the last table that a rule is made of stands.
std::string last_place(const Policy& policy, std::string_view part, int layer) {
  std::string where;
  for (const OpRuleChange& change : policy.rules)
    if (covers(change, part, layer)) where = change.where;
  return where;
}

std::vector<std::string> parts_of_run() {
  std::vector<std::string> parts{"head"};
  for (const std::string_view op : ops_of_model()) parts.emplace_back(op);
  for (const std::string_view op : ops_of_update()) parts.emplace_back(op);
  for (const std::string_view op : ops_of_mlp()) parts.push_back("mlp:" + std::string(op));
  return parts;
}

/// The layers that the tables name, -1, and one more that stands for all others.
std::vector<int> layers_of(const Policy& policy) {
  std::vector<int> layers{-1};
  int most = -1;
  for (const OpRuleChange& change : policy.rules)
    for (const int layer : change.layers) {
      layers.push_back(layer);
      most = std::max(most, layer);
    }
  layers.push_back(most + 1);
  return layers;
}

/// What the model says of an op: everything else that decides about variants the policy says.
AttributeBytes with_approximation(const Op& op, AttributeBytes attributes,
                                  const std::string& approximate) {
  if (op.name != "gelu") return attributes;
  for (const AttributeSpec& a : op.attributes)
    if (a.name == "approximate") a.set(attributes, approximate);
  return attributes;
}

/// Nothing, if the op can do what the policy wants with one of these approximations.
std::string conflict_of(const Policy& policy, const std::string& part, int layer,
                        std::span<const std::string> approximations) {
  const Op* op = find_op(op_of(part));
  const OpRule rule = policy.rule(part, layer);
  std::string first;
  for (const std::string& approximate : approximations) {
    const std::string c =
        conflict(*op, rule, with_approximation(*op, attributes_of(*op, rule), approximate));
    if (c.empty()) return {};
    if (first.empty()) first = c;
  }
  return first;
}

void require_possible(const Policy& policy, const std::string& where,
                      std::span<const std::string> approximations) {
  for (const std::string& part : parts_of_run())
    for (const int layer : layers_of(policy)) {
      const std::string wrong = conflict_of(policy, part, layer, approximations);
      if (wrong.empty()) continue;
      const std::string place = last_place(policy, part, layer);
      throw InputError((where.empty() ? "" : where + ": ") + (place.empty() ? policy.name : place),
                       wrong);
    }
}

}  // namespace

void require_possible(const Policy& policy) {
  const std::array<std::string, 2> any{"none", "tanh"};
  require_possible(policy, "", any);
}

void require_fits(const Policy& policy, const ModelSpec& model, const std::string& where) {
  for (const OpRuleChange& change : policy.rules)
    for (const int layer : change.layers)
      if (layer >= model.layers)
        throw InputError(
            where, change.where + ": layer " + std::to_string(layer),
            "a layer from 0 to " + std::to_string(model.layers - 1) + " of model " + model.name);
  if (model.activation == Activation::swiglu) return;  // then no gelu is called
  const std::array<std::string, 1> own{model.activation == Activation::gelu_tanh ? "tanh" : "none"};
  require_possible(policy, where, own);
}

}  // namespace opbound::train
