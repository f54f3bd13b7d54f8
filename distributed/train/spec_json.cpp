// A training spec as JSON, for the log and for whoever has to tell whether two are the same.
#include "distributed/train/log.hpp"

namespace opbound::train {
namespace {

using Json = nlohmann::ordered_json;

template <class E, std::size_t N>
std::string_view word(E value, const std::array<std::string_view, N>& names) {
  return names[static_cast<std::size_t>(value)];
}

Json json_of(const AttributeValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json json_of(const OpRuleChange& change) {
  Json j = Json::object();
  if (!change.op.empty()) j["op"] = change.op;
  if (!change.layers.empty()) j["layers"] = change.layers;
  if (change.precision) j["precision"] = name_of(*change.precision);
  if (change.gradient) j["gradient"] = name_of(*change.gradient);
  if (change.variant) j["variant"] = *change.variant;
  if (change.provider) j["provider"] = *change.provider;
  for (const auto& [name, value] : change.attributes) j["attributes"][name] = json_of(value);
  return j;
}

}  // namespace

Json json_of(const ModelSpec& m) {
  return {{"name", m.name},
          {"layers", m.layers},
          {"heads", m.heads},
          {"width", m.width},
          {"hidden", m.hidden},
          {"context", m.context},
          {"vocabulary", m.vocabulary},
          {"positions", word(m.positions, position_names)},
          {"norm", word(m.norm, norm_names)},
          {"activation", word(m.activation, activation_names)},
          {"biases", m.biases},
          {"tied_head", m.tied_head},
          {"norm_eps", m.norm_eps}};
}

Json json_of(const Policy& p) {
  Json j = {{"name", p.name},
            {"master", name_of(p.master)},
            {"stochastic", p.stochastic},
            {"gradient", name_of(p.gradient)},
            {"reduction", name_of(p.reduction)},
            {"reproducible_sum", p.reproducible_sum},
            {"loss_scale", {{"kind", word(p.loss_scale, loss_scale_names)}}},
            {"dropout", p.dropout},
            {"checkpointing", word(p.checkpointing, checkpointing_names)},
            {"stored_input", name_of(p.stored_input)},
            {"rules", Json::array()}};
  Json& scale = j["loss_scale"];
  if (p.loss_scale != LossScale::none) scale["initial"] = p.initial_scale;
  if (p.loss_scale == LossScale::dynamic) {
    scale["growth_factor"] = p.growth_factor;
    scale["backoff_factor"] = p.backoff_factor;
    scale["growth_interval"] = p.growth_interval;
  }
  for (const OpRuleChange& change : p.rules) j["rules"].push_back(json_of(change));
  return j;
}

Json json_of(const TrainingSpec& s) {
  const Optimizer& o = s.optimizer;
  return {{"model", json_of(s.model)},
          {"policy", json_of(s.policy)},
          {"sharding", word(s.sharding, sharding_names)},
          {"gather", name_of(s.gather)},
          {"data", s.data},
          {"seed", s.seed},
          {"steps", s.steps},
          {"micro_batches", s.micro_batches},
          {"sequences", s.sequences},
          {"schedule",
           {{"lr", s.schedule.lr},
            {"warmup_steps", s.schedule.warmup_steps},
            {"final_share", s.schedule.final_share}}},
          {"optimizer",
           {{"beta1", o.beta1},
            {"beta2", o.beta2},
            {"eps", o.eps},
            {"weight_decay", o.weight_decay},
            {"clip_norm", o.clip_norm},
            {"clip_error_on_nonfinite", o.clip_error_on_nonfinite}}}};
}

Json identity_of(Json spec) {
  for (const char* free : {"steps", "sharding", "gather", "data"}) spec.erase(free);
  return spec;
}

}  // namespace opbound::train
