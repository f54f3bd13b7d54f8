#include "distributed/trace/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "distributed/train/evaluate.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using Json = nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity();

Json spec_of(const TraceHead& head, const std::string& path) {
  Json spec = Json::parse(head.spec, nullptr, false);
  if (!spec.is_object())
    throw InputError(path, "a trace without a training's spec", "one of `opbound train --trace`");
  return spec;
}

/// Leaves of a JSON object, by their paths.
std::map<std::string, std::string> leaves(const Json& j) {
  std::map<std::string, std::string> all;
  const Json flat = j.empty() ? Json::object() : j.flatten();
  for (const auto& [path, value] : flat.items()) {
    std::string name = path.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    all[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return all;
}

std::size_t most_likely(const std::vector<float>& logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void compare_prompts(const TraceStep& a, const TraceStep& b, StepDistance& d) {
  double kl = 0, same = 0;
  for (std::size_t p = 0; p < a.prompts.size(); ++p) {
    const std::vector<double> x(a.prompts[p].begin(), a.prompts[p].end());
    const std::vector<double> y(b.prompts[p].begin(), b.prompts[p].end());
    if (x.size() != y.size()) return;
    const double nats = train::kl_nats(x, y);
    kl += std::isnan(nats) ? infinity : nats;
    same += most_likely(a.prompts[p]) == most_likely(b.prompts[p]) ? 1 : 0;
  }
  d.kl_nats = kl / static_cast<double>(a.prompts.size());
  d.top1_share = same / static_cast<double>(a.prompts.size());
}

}  // namespace

bool StepDistance::has_same_bits() const {
  return std::none_of(differs.begin(), differs.end(), [](std::uint8_t d) { return d != 0; });
}

StepDistance distance_of(const TraceStep& a, const TraceStep& b) {
  StepDistance d;
  d.step = a.step;
  const double ratio = a.loss_scale / b.loss_scale;
  const bool is_scaled = ratio != 1 && std::isfinite(ratio) && ratio > 0;
  std::vector<double> left, right;
  for (std::size_t p = 0; p < a.gradients.size(); ++p) {
    const GradientSums& x = a.gradients[p];
    GradientSums y = b.gradients[p];
    if (is_scaled)
      for (double& s : y.sketch) s *= ratio;
    d.parameters.push_back(x.nonfinite != y.nonfinite ? infinity : distance(x.sketch, y.sketch));
    d.differs.push_back(x.hash != y.hash ? 1 : 0);
    left.insert(left.end(), x.sketch.begin(), x.sketch.end());
    right.insert(right.end(), y.sketch.begin(), y.sketch.end());
  }
  d.cosine = cosine(left, right);
  d.has_same_loss = a.loss == b.loss || (std::isnan(a.loss) && std::isnan(b.loss));
  d.loss = d.has_same_loss ? 0 : std::abs(a.loss - b.loss);
  if (std::isnan(d.loss)) d.loss = infinity;
  if (!a.prompts.empty() && a.prompts.size() == b.prompts.size()) compare_prompts(a, b, d);
  d.has_same_samples = a.sample_hash == b.sample_hash;
  d.has_same_randomness = a.random_hash == b.random_hash;
  d.has_same_rate = a.lr == b.lr || (std::isnan(a.lr) && std::isnan(b.lr));
  d.has_parted = a.is_skipped != b.is_skipped;
  d.has_skipped = a.is_skipped && b.is_skipped;
  return d;
}

void for_each_distance(TraceFile& a, TraceFile& b,
                       const std::function<bool(const StepDistance&)>& take) {
  if (a.parameters() != b.parameters())
    throw InputError(b.path(), "a run of another model", "one of the model of " + a.path());
  bool has_parted = false;
  a.for_each_step([&](const TraceStep& left) {
    const std::optional<TraceStep> right = b.step(left.step);
    if (!right) return true;
    StepDistance d = distance_of(left, *right);
    d.has_parted = has_parted = has_parted || d.has_parted;
    return take(d);
  });
}

// ---- what differs

bool have_same_text(const TraceHead& a, const TraceHead& b) {
  return a.data_sha256.empty() || b.data_sha256.empty() || a.data_sha256 == b.data_sha256;
}

namespace {

Json at(const Json& j, const char* key) { return j.contains(key) ? j[key] : Json(); }

std::string environment_of(const TraceHead& head, const char* key) {
  for (const auto& [name, value] : head.environment)
    if (name == key) return value;
  return {};
}

/// What weights are rounded to on their way between ranks; "": nothing that the master weights are
/// not.
std::string wire_of(const Json& spec) {
  const std::string sharding = at(spec, "sharding").is_string() ? spec["sharding"] : "dp";
  Json wire = sharding == "zero3-offload" ? Json("bf16") : Json("fp32");
  if (sharding == "fsdp") wire = at(spec, "gather");
  const Json policy = at(spec, "policy");
  if (sharding == "dp" || !policy.is_object() || wire == at(policy, "master") || wire == "fp64")
    return {};
  if (wire == "fp32" && at(policy, "master") != "fp64") return {};
  return wire.dump();
}

/// The learning rate of a step hangs on how many there will be: train::learning_rate.
bool needs_length(const Json& spec) {
  const Json schedule = at(spec, "schedule");
  return !schedule.is_object() || at(schedule, "final_share") != 1;
}

}  // namespace

bool must_agree_in_bits(const TraceHead& a, const TraceHead& b) {
  const Json x = Json::parse(a.spec, nullptr, false), y = Json::parse(b.spec, nullptr, false);
  if (!x.is_object() || !y.is_object()) return false;
  const bool are_own = a.providers.size() <= 1 && a.providers == b.providers;
  if (!are_own || a.source != b.source) return false;  // another kernel may do as it likes
  if (environment_of(a, "twin") != environment_of(b, "twin")) return false;
  const auto without_layout = [](Json j) {
    for (const char* key : {"sharding", "gather", "steps", "data"}) j.erase(key);
    return j;
  };
  if (without_layout(x) != without_layout(y) || wire_of(x) != wire_of(y)) return false;
  if (needs_length(x) && at(x, "steps") != at(y, "steps")) return false;
  const bool is_text_known = !a.data_sha256.empty() && !b.data_sha256.empty();
  if (is_text_known ? a.data_sha256 != b.data_sha256 : at(x, "data") != at(y, "data")) return false;
  const Json policy = at(x, "policy");
  const bool is_reproducible = policy.is_object() && at(policy, "reproducible_sum") == true;
  return is_reproducible ||
         (a.ranks == b.ranks && (a.ranks == 1 || at(x, "sharding") == at(y, "sharding")));
}

std::vector<std::string> differences(const TraceHead& a, const TraceHead& b) {
  std::vector<std::string> words;
  const auto compare = [&](const std::string& name, const std::string& x, const std::string& y) {
    if (x != y) words.push_back(name + " " + (x.empty() ? "-" : x) + " / " + (y.empty() ? "-" : y));
  };
  std::map<std::string, std::string> x, y;
  if (!a.spec.empty()) x = leaves(spec_of(a, "the first trace"));
  if (!b.spec.empty()) y = leaves(spec_of(b, "the second trace"));
  std::set<std::string> names;
  for (const auto& [name, value] : x) names.insert(name);
  for (const auto& [name, value] : y) names.insert(name);
  for (const std::string& name : names) compare(name, x[name], y[name]);
  compare("written by", a.source, b.source);
  compare("device", a.device, b.device);
  compare("ranks", std::to_string(a.ranks), std::to_string(b.ranks));
  compare("text", a.data_sha256.substr(0, 12), b.data_sha256.substr(0, 12));
  const auto list = [&](const char* what, const auto& left, const auto& right) {
    std::map<std::string, std::string> l(left.begin(), left.end()), r(right.begin(), right.end());
    for (auto* one : {&l, &r}) one->erase(watched_by);  // who looks on changes nothing
    std::set<std::string> keys;
    for (const auto& [key, value] : l) keys.insert(key);
    for (const auto& [key, value] : r) keys.insert(key);
    for (const std::string& key : keys) compare(std::string(what) + key, l[key], r[key]);
  };
  list("provider ", a.providers, b.providers);
  list("", a.environment, b.environment);
  return words;
}

std::string first_words(const std::vector<std::string>& differences) {
  constexpr std::size_t few = 3;
  if (differences.empty()) return "nothing says that it would";
  std::string line;
  for (std::size_t i = 0; i < std::min(few, differences.size()); ++i)
    line += (i == 0 ? "" : ", ") + differences[i];
  return differences.size() <= few
             ? line
             : line + ", and " + std::to_string(differences.size() - few) + " more";
}

std::optional<FirstCall> first_differing_call(TraceFile& a, TraceFile& b, std::int64_t step) {
  using Name = std::tuple<std::int64_t, int, int, std::string, std::string, std::string, int>;
  const auto named = [&](TraceFile& file) {
    std::map<std::pair<int, std::int64_t>, TraceCall> by_place;
    for (const TraceCall& c : file.calls()) by_place[{c.phase, c.index}] = c;
    std::vector<std::tuple<Name, CallBits, TraceCall>> all;
    std::map<Name, int> count;
    for (const CallBits& bits : file.bits(step)) {
      const TraceCall& c = by_place[{bits.phase, bits.index}];
      Name name{bits.micro_batch, c.phase, c.layer, c.part, c.op, c.direction, 0};
      std::get<6>(name) = count[name]++;
      all.emplace_back(name, bits, c);
    }
    return all;
  };
  std::map<Name, std::pair<CallBits, TraceCall>> right;
  for (const auto& [name, bits, call] : named(b)) right[name] = {bits, call};
  // The steps of micro-batches come first in a run, then the update's: micro-batch -1.
  auto left = named(a);
  std::stable_partition(left.begin(), left.end(),
                        [](const auto& x) { return std::get<1>(x).micro_batch >= 0; });
  for (const auto& [name, bits, call] : left) {
    const auto found = right.find(name);
    if (found == right.end()) continue;
    if (bits.inputs == found->second.first.inputs && bits.outputs != found->second.first.outputs)
      return FirstCall{bits, call, found->second.second};
  }
  return std::nullopt;
}

Cause cause_of(const FirstCall& call, const TraceHead& a, const TraceHead& b) {
  if (call.a.precision != call.b.precision) return Cause::format;
  if (call.a.variant != call.b.variant) return Cause::algorithm;
  const bool has_same_kernel = call.a.provider == call.b.provider && a.source == b.source &&
                               (call.a.provider == "own" || a.providers == b.providers);
  if (!has_same_kernel) return Cause::provider;
  if (call.bits.phase != 0 && a.ranks != b.ranks) return Cause::order;
  return Cause::fault;
}

}  // namespace opbound::trace
