#include "distributed/trace/compare.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "distributed/train/evaluate.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using Json = nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Below it a distance is fp64's rounding of the sketches.
constexpr double least_distance = 0x1p-52;
/// Distances of neighbouring steps are much alike: fewer steps would show too few draws.
constexpr std::size_t shortest_window = 32;

Json spec_of(const TraceHead& head, const std::string& path) {
  Json spec = Json::parse(head.spec, nullptr, false);
  if (!spec.is_object())
    throw InputError(path, "a trace without a training's spec", "one of `opbound train --trace`");
  return spec;
}

/// Leaves of a JSON object, by their paths.
std::map<std::string, std::string> leaves(const Json& j) {
  std::map<std::string, std::string> all;
  const Json flat = j.flatten();
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
  std::vector<double> left, right;
  for (std::size_t p = 0; p < a.gradients.size(); ++p) {
    const GradientSums &x = a.gradients[p], &y = b.gradients[p];
    // Gradients carry the step's loss scale: b's are compared as if they had a's.
    std::array<double, sketch_width> other = y.sketch;
    if (a.loss_scale != b.loss_scale)
      for (double& v : other) v *= a.loss_scale / b.loss_scale;
    d.parameters.push_back(x.nonfinite != y.nonfinite ? infinity : distance(x.sketch, other));
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
  return d;
}

void for_each_distance(TraceFile& a, TraceFile& b,
                       const std::function<bool(const StepDistance&)>& take) {
  if (a.parameters() != b.parameters())
    throw InputError(b.path(), "a run of another model", "one of the model of " + a.path());
  a.for_each_step([&](const TraceStep& left) {
    const std::optional<TraceStep> right = b.step(left.step);
    return !right || take(distance_of(left, *right));
  });
}

// ---- the band

void Band::Spread::take(std::int64_t step, const std::vector<double>& distances) {
  const auto at = static_cast<std::size_t>(step);
  if (sums.size() <= at) {
    sums.resize(at + 1);
    squares.resize(at + 1);
    counts.resize(at + 1);
  }
  sums[at].resize(distances.size());
  squares[at].resize(distances.size());
  ++counts[at];
  for (std::size_t p = 0; p < distances.size(); ++p) {
    const double l = std::log(std::max(distances[p], least_distance));
    sums[at][p] += l;
    squares[at][p] += l * l;
  }
}

void Band::Spread::finish(std::size_t twins, double alpha) {
  // Sums of squares and degrees of freedom before each step.
  std::vector<double> square(sums.size() + 1), freedom(sums.size() + 1);
  double comparisons = 0;
  std::size_t places = 0;
  const auto m = static_cast<double>(twins);
  for (std::size_t s = 0; s < sums.size(); ++s) {
    square[s + 1] = square[s];
    freedom[s + 1] = freedom[s];
    if (counts[s] != twins) continue;
    places = sums[s].size();
    for (std::size_t p = 0; p < places; ++p) {
      square[s + 1] += std::max(0.0, squares[s][p] - sums[s][p] * sums[s][p] / m);
      freedom[s + 1] += m - 1;
      ++comparisons;
    }
  }
  if (comparisons == 0) return;
  for (std::size_t s = 0; s < sums.size(); ++s) {
    const std::size_t first = s / 2;
    const std::size_t end = std::min(sums.size(), 2 * std::max(s, shortest_window / 2) + 1);
    sigma.push_back(std::sqrt((square[end] - square[first]) / (freedom[end] - freedom[first])));
  }
  const double independent = static_cast<double>((twins - 1) * places);
  quantile = boost::math::quantile(
      boost::math::complement(boost::math::students_t(independent), alpha / comparisons));
}

double Band::Spread::limit(std::int64_t step, std::size_t place) const {
  const auto at = static_cast<std::size_t>(step);
  if (at >= sigma.size() || counts[at] < 2 || place >= sums[at].size()) return infinity;
  const auto m = static_cast<double>(counts[at]);
  return std::exp(sums[at][place] / m + quantile * sigma[at] * std::sqrt(1 + 1 / m));
}

void Band::Amplitude::finish(std::size_t twins, double alpha) {
  if (squares.empty()) return;
  const auto comparisons = static_cast<double>(squares.size());
  quantile = boost::math::quantile(boost::math::complement(
      boost::math::students_t(static_cast<double>(twins)), alpha / comparisons / 2));
}

double Band::Amplitude::limit(std::int64_t step, std::size_t twins) const {
  if (!squares.contains(step)) return infinity;
  const auto last = 2 * std::max(step, static_cast<std::int64_t>(shortest_window / 2));
  const auto m = static_cast<double>(twins);
  double sum = 0, count = 0;
  for (auto it = squares.lower_bound(step / 2); it != squares.end() && it->first <= last; ++it) {
    sum += it->second;
    count += m;
  }
  return quantile * std::sqrt(sum / count) * std::sqrt(1 + 1 / m);
}

Band::Band(TraceFile& reference, const std::vector<std::string>& twins, double alpha)
    : alpha_(alpha), twins_(twins.size()) {
  if (twins.size() < 2)
    throw InputError("twins", std::to_string(twins.size()) + " of them", "at least 2 traces");
  const std::string spec = reference.head().spec;
  for (const std::string& path : twins) {
    TraceFile twin(path, TraceFile::Open::read);
    if (twin.head().spec != spec)
      throw InputError(path, "a run of another spec than " + reference.path(),
                       "a twin: the same run with --twin");
    bool is_itself = true;
    for_each_distance(reference, twin, [&](const StepDistance& d) {
      is_itself = is_itself && d.has_same_bits();
      gradient_.take(d.step, d.parameters);
      loss_.take(d.step, d.loss);
      if (d.kl_nats) kl_.take(d.step, std::sqrt(*d.kl_nats));
      return true;
    });
    if (is_itself)
      throw InputError(path, "the reference again, bit for bit",
                       "a twin: the same run with --twin");
  }
  // All three are watched together.
  gradient_.finish(twins.size(), alpha / 3);
  loss_.finish(twins.size(), alpha / 3);
  kl_.finish(twins.size(), alpha / 3);
}

double Band::limit(std::int64_t step, std::size_t parameter) const {
  return gradient_.limit(step, parameter);
}
double Band::deviation(std::int64_t step) const {
  const auto at = static_cast<std::size_t>(step);
  return at < gradient_.sigma.size() ? gradient_.sigma[at] : 0;
}
double Band::loss_limit(std::int64_t step) const { return loss_.limit(step, twins_); }

double Band::kl_limit(std::int64_t step) const {
  const double root = kl_.limit(step, twins_);
  return root * root;
}

std::optional<Excess> excess_of(const StepDistance& d, const Band* band) {
  std::optional<Excess> worst;
  double farthest = 1;
  for (std::size_t p = 0; p < d.parameters.size(); ++p) {
    const double limit = band != nullptr ? band->limit(d.step, p) : 0;
    const bool exceeds = band != nullptr ? d.parameters[p] > limit : d.differs[p] != 0;
    if (!exceeds) continue;
    // Bits may differ where sketches do not show it.
    const double ratio = limit > 0 ? d.parameters[p] / limit : std::max(d.parameters[p], 0x1p-60);
    if (worst && ratio <= farthest) continue;
    farthest = ratio;
    worst = Excess{d.step, p, d.parameters[p], limit};
  }
  return worst;
}

// ---- what differs

bool must_agree_in_bits(const TraceHead& a, const TraceHead& b) {
  const Json x = Json::parse(a.spec, nullptr, false), y = Json::parse(b.spec, nullptr, false);
  if (!x.is_object() || !y.is_object()) return false;
  const auto is_own = [](const TraceHead& h) {
    return h.providers.size() <= 1;  // a plug-in's kernel may do as it likes
  };
  const auto without_layout = [](Json j) {
    for (const char* key : {"sharding", "gather", "steps", "data"}) j.erase(key);
    return j;
  };
  const bool is_reproducible = x.contains("policy") && x["policy"].contains("reproducible_sum") &&
                               x["policy"]["reproducible_sum"] == true;
  return is_own(a) && is_own(b) && without_layout(x) == without_layout(y) &&
         a.data_sha256 == b.data_sha256 && (is_reproducible || a.ranks == b.ranks);
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
  compare("device", a.device, b.device);
  compare("ranks", std::to_string(a.ranks), std::to_string(b.ranks));
  compare("text", a.data_sha256.substr(0, 12), b.data_sha256.substr(0, 12));
  const auto list = [&](const char* what, const auto& left, const auto& right) {
    std::map<std::string, std::string> l(left.begin(), left.end()), r(right.begin(), right.end());
    std::set<std::string> keys;
    for (const auto& [key, value] : l) keys.insert(key);
    for (const auto& [key, value] : r) keys.insert(key);
    for (const std::string& key : keys) compare(std::string(what) + key, l[key], r[key]);
  };
  list("provider ", a.providers, b.providers);
  list("", a.environment, b.environment);
  return words;
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
  const bool has_same_kernel = call.a.provider == call.b.provider &&
                               (call.a.provider == "own" || a.providers == b.providers);
  if (!has_same_kernel) return Cause::provider;
  if (call.bits.phase != 0 && a.ranks != b.ranks) return Cause::order;
  return Cause::fault;
}

}  // namespace opbound::trace
