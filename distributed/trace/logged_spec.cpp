#include "distributed/trace/logged_spec.hpp"

#include <algorithm>

#include "distributed/train/log.hpp"
#include "distributed/train/policy_check.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using Json = nlohmann::ordered_json;
using namespace train;  // what a spec is made of

/// An object's members; what is missing or of another type is an error in one line.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) refuse("no object");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(where_, what, "the spec of a training run, as opbound train logs it");
  }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    if (!json_.contains(key)) refuse(std::string("no '") + key + "'");
    return json_[key];
  }
  Members object(const char* key) const { return {at(key), where_ + ": " + key}; }

  template <class T>
  void read(const char* key, T& to) const {
    const Json& j = at(key);
    const bool is_one = std::is_same_v<T, bool>          ? j.is_boolean()
                        : std::is_same_v<T, std::string> ? j.is_string()
                        : std::is_same_v<T, double>      ? j.is_number()
                                                         : j.is_number_integer();
    if (!is_one) refuse(std::string("'") + key + "'");
    to = j.get<T>();
  }
  std::string text(const char* key) const {
    std::string t;
    read(key, t);
    return t;
  }
  Format format(const char* key) const {
    const auto f = format_named(text(key));
    if (!f) refuse(std::string("'") + key + "' names no format");
    return *f;
  }
  template <class E, std::size_t N>
  void word(const char* key, E& to, const std::array<std::string_view, N>& names) const {
    const auto found = std::find(names.begin(), names.end(), text(key));
    if (found == names.end()) refuse(std::string("'") + key + "'");
    to = static_cast<E>(found - names.begin());
  }

 private:
  const Json& json_;
  std::string where_;
};

ModelSpec model_of(const Members& m) {
  ModelSpec s;
  m.read("name", s.name);
  m.read("layers", s.layers);
  m.read("heads", s.heads);
  m.read("width", s.width);
  m.read("hidden", s.hidden);
  m.read("context", s.context);
  m.read("vocabulary", s.vocabulary);
  m.word("positions", s.positions, position_names);
  m.word("norm", s.norm, norm_names);
  m.word("activation", s.activation, activation_names);
  m.read("biases", s.biases);
  m.read("tied_head", s.tied_head);
  m.read("norm_eps", s.norm_eps);
  return s;
}

AttributeValue attribute_of(const Json& j, const Members& rule) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<std::int64_t>();
  if (j.is_number()) return j.get<double>();
  if (!j.is_string()) rule.refuse("an attribute");
  return j.get<std::string>();
}

OpRuleChange rule_of(const Members& m) {
  OpRuleChange r;
  if (m.has("op")) m.read("op", r.op);
  if (m.has("layers")) {
    if (!m.at("layers").is_array()) m.refuse("'layers'");
    for (const Json& layer : m.at("layers")) {
      if (!layer.is_number_integer()) m.refuse("'layers'");
      r.layers.push_back(layer.get<int>());
    }
  }
  if (m.has("precision")) {
    r.precision = precision_named(m.text("precision"));
    if (!r.precision) m.refuse("'precision'");
  }
  if (m.has("gradient")) r.gradient = m.format("gradient");
  if (m.has("variant")) r.variant = m.text("variant");
  if (m.has("provider")) r.provider = m.text("provider");
  if (m.has("attributes")) {
    if (!m.at("attributes").is_object()) m.refuse("'attributes'");
    for (const auto& [name, value] : m.at("attributes").items())
      r.attributes.emplace_back(name, attribute_of(value, m));
  }
  return r;
}

Policy policy_of(const Members& m) {
  Policy p;
  m.read("name", p.name);
  p.master = m.format("master");
  m.read("stochastic", p.stochastic);
  p.gradient = m.format("gradient");
  p.reduction = m.format("reduction");
  m.read("reproducible_sum", p.reproducible_sum);
  const Members scale = m.object("loss_scale");
  scale.word("kind", p.loss_scale, loss_scale_names);
  if (p.loss_scale != LossScale::none) scale.read("initial", p.initial_scale);
  if (p.loss_scale == LossScale::dynamic) {
    scale.read("growth_factor", p.growth_factor);
    scale.read("backoff_factor", p.backoff_factor);
    scale.read("growth_interval", p.growth_interval);
  }
  m.read("dropout", p.dropout);
  m.word("checkpointing", p.checkpointing, checkpointing_names);
  p.stored_input = m.format("stored_input");
  if (!m.at("rules").is_array()) m.refuse("'rules'");
  for (const Json& rule : m.at("rules")) p.rules.push_back(rule_of({rule, "a rule of the policy"}));
  return p;
}

/// Names and numbers that no kernel has abort where they are used, so they are refused here.
void require_known(const Policy& policy, const std::string& where) {
  for (const OpRuleChange& rule : policy.rules) {
    if (rule.op.empty() || rule.op == "mlp") continue;
    const Op* op = find_op(op_of(rule.op));
    if (op == nullptr) throw InputError(where, "no op '" + rule.op + "'", "one that opbound has");
    if (rule.variant && op->variant_named(*rule.variant) < 0)
      throw InputError(where, rule.op + " has no variant '" + *rule.variant + "'",
                       "one of its own");
    for (const auto& [name, value] : rule.attributes) {
      AttributeBytes bytes = op->default_attributes;
      const bool is_set = std::any_of(op->attributes.begin(), op->attributes.end(),
                                      [&, &n = name, &v = value](const AttributeSpec& a) {
                                        return a.name == n && a.set(bytes, v);
                                      });
      if (!is_set)
        throw InputError(where, rule.op + " has no such attribute '" + name + "'",
                         "one of its own");
    }
  }
}

}  // namespace

TrainingSpec logged_spec(const Json& json, const std::string& where) {
  const Members m(json, where);
  TrainingSpec s;
  s.model = model_of(m.object("model"));
  s.policy = policy_of(m.object("policy"));
  m.word("sharding", s.sharding, sharding_names);
  s.gather = m.format("gather");
  m.read("data", s.data);
  m.read("seed", s.seed);
  m.read("steps", s.steps);
  m.read("micro_batches", s.micro_batches);
  m.read("sequences", s.sequences);
  const Members schedule = m.object("schedule");
  schedule.read("lr", s.schedule.lr);
  schedule.read("warmup_steps", s.schedule.warmup_steps);
  schedule.read("final_share", s.schedule.final_share);
  const Members optimizer = m.object("optimizer");
  optimizer.read("beta1", s.optimizer.beta1);
  optimizer.read("beta2", s.optimizer.beta2);
  optimizer.read("eps", s.optimizer.eps);
  optimizer.read("weight_decay", s.optimizer.weight_decay);
  optimizer.read("clip_norm", s.optimizer.clip_norm);
  optimizer.read("clip_error_on_nonfinite", s.optimizer.clip_error_on_nonfinite);
  if (json_of(s) != json) m.refuse("members that this version does not know");
  require_valid(s.model, where);
  require_known(s.policy, where);
  require_possible(s.policy);
  require_valid(s, where);
  if (s.steps < 1 || s.micro_batches < 1 || s.sequences < 1) m.refuse("steps of nothing");
  return s;
}

}  // namespace opbound::trace
