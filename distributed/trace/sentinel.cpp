#include "distributed/trace/sentinel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "distributed/trace/config_check.hpp"
#include "distributed/trace/gradient_check.hpp"
#include "distributed/train/trainer.hpp"
#include "distributed/train/whole.hpp"
#include "ops/hash.hpp"
#include "reports/error.hpp"
#include "reports/text.hpp"

namespace opbound::trace {
namespace {

using train::RunView;

/// The first element that is not finite; -1: there is none.
template <class T>
std::int64_t first_nonfinite(const std::byte* data, std::int64_t count) {
  constexpr std::int64_t block = 4096;
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t end = std::min(count, first + block);
    T sum = 0;  // x - x is 0 for finite x, else NaN
    for (std::int64_t i = first; i < end; ++i) {
      const T x = opbound::detail::read_element<T>(data, i);
      sum += x - x;
    }
    if (sum == 0) continue;
    for (std::int64_t i = first; i < end; ++i)
      if (!std::isfinite(opbound::detail::read_element<T>(data, i))) return i;
  }
  return -1;
}

std::int64_t first_nonfinite(Element e, const std::byte* data, std::int64_t count) {
  if (e == Element::fp32) return first_nonfinite<float>(data, count);
  if (e == Element::fp64) return first_nonfinite<double>(data, count);
  for (std::int64_t i = 0; i < count; ++i)
    if (!std::isfinite(load(e, data, i))) return i;
  return -1;
}

/// What one rank tells the others of: a place in the run, or none.
struct Told {
  std::int64_t micro_batch = -1, element = -1;
  std::uint64_t weights = 0;  ///< hash of those that the step begins with
  std::uint8_t is_seed = 0, is_tokens = 0, is_nonfinite = 0, is_weights = 0;
  std::array<std::uint8_t, 4> unused{};  // no bytes that are not set
};

}  // namespace

struct Sentinel::State {
  State(SentinelOptions o, Tracer& t, Audit* a) : options(std::move(o)), tracer(t), audit(a) {}

  SentinelOptions options;
  Tracer& tracer;
  Audit* audit;
  std::optional<RunView> run;
  std::optional<TraceFile> reference;
  std::optional<Band> band;
  bool must_agree = false;
  std::vector<Trend> trends;  ///< of the parameters' norms, then of the loss
  std::size_t findings_seen = 0;
  std::int64_t watched = 0;  ///< steps
  Told told;
  std::int64_t chunks = 1;            ///< whose norms the update's norm is made of
  bool scans = false;                 ///< gradients and weights lie on the host
  std::optional<std::uint64_t> left;  ///< hash of the weights that the last step left
  std::vector<TraceEvent> alarms, suspicions;
  std::vector<TraceEvent> own;  ///< found by this rank, not yet told
  std::set<std::string> kinds;
  std::string overflow;                ///< where the step's gradient was not finite first; empty
  std::optional<std::int64_t> parted;  ///< the step from which on there is no reference

  void found(std::int64_t step, const char* level, std::string check, std::string place,
             std::string text) {
    own.push_back({step, level, std::move(check), std::move(place), std::move(text)});
  }
  /// Found by all ranks alike.
  void take(TraceEvent event);
  void share();
  std::uint64_t weight_hash() const;
  void tell(std::int64_t step);
  void check_scale(const train::StepResult& result);
  void check_norm(const train::StepResult& result);
  void check_reference(std::int64_t step);
  void check_trend(const train::StepResult& result);
  void take_findings(std::int64_t step);
};

Sentinel::Sentinel(SentinelOptions options, Tracer& tracer, Audit* audit)
    : state_(std::make_unique<State>(std::move(options), tracer, audit)) {
  State& s = *state_;
  if (s.options.reference.empty()) return;
  s.reference.emplace(s.options.reference, TraceFile::Open::read);
  if (!s.options.twins.empty()) s.band.emplace(*s.reference, s.options.twins, s.options.alpha);
}
Sentinel::~Sentinel() = default;

const std::vector<TraceEvent>& Sentinel::alarms() const { return state_->alarms; }
const std::vector<TraceEvent>& Sentinel::suspicions() const { return state_->suspicions; }

std::string Sentinel::summary() const {
  const auto counted = [](std::int64_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  const std::int64_t alarms = std::ssize(state_->alarms), doubts = std::ssize(state_->suspicions);
  return counted(state_->watched, "step") + " watched, " +
         (alarms == 0 ? "no alarm" : counted(alarms, "alarm")) +
         (doubts == 0 ? "" : ", " + counted(doubts, "suspicion"));
}

void Sentinel::State::take(TraceEvent event) {
  // One audit for each kind: it finds again what lasts.
  if (audit != nullptr && kinds.insert(event.check).second) audit->audit_next_step();
  tracer.note(event);
  const bool is_alarm = event.level != "trend";
  if (!is_alarm && options.on_note)
    options.on_note("suspicion: step " + std::to_string(event.step) + ": " + event.check + ": " +
                    event.place + ": " + event.text);
  (is_alarm ? alarms : suspicions).push_back(std::move(event));
}

/// What any rank found is taken by every rank, rank by rank; what all found alike, once.
void Sentinel::State::share() {
  std::string text;
  for (const TraceEvent& e : own) {
    text += std::to_string(e.step) + '\n';
    for (const std::string* part : {&e.level, &e.check, &e.place, &e.text}) text += *part + '\n';
  }
  own.clear();
  const std::vector<std::string> all = gathered_texts(run->ranks, text);
  const bool are_alike =
      std::all_of(all.begin(), all.end(), [&](const std::string& t) { return t == all.front(); });
  for (std::size_t r = 0; r < (are_alike ? 1 : all.size()); ++r) {
    std::istringstream lines(all[r]);
    std::string step;
    for (TraceEvent e; std::getline(lines, step) && std::getline(lines, e.level) &&
                       std::getline(lines, e.check) && std::getline(lines, e.place) &&
                       std::getline(lines, e.text);) {
      e.step = std::stoll(step);
      TraceEvent told = e;
      if (!are_alike) told.place += ", as rank " + std::to_string(r) + " sees it";
      take(told);
    }
  }
}

void Sentinel::begin(const RunView& run) {
  State& s = *state_;
  s.run.emplace(run);
  s.scans = !run.machine.own().is_on_device();
  if (s.reference) {
    if (s.reference->parameters() != s.tracer.parameters())
      throw InputError(s.options.reference, "a run of another model", "one of this model");
    s.must_agree = !s.band && must_agree_in_bits(s.reference->head(), s.tracer.head());
    if (!s.band && !s.must_agree)
      throw InputError(s.options.reference,
                       "a run that need not give this run's bits (" +
                           first_words(differences(s.reference->head(), s.tracer.head())) +
                           "), and no twins for limits",
                       "--twins, or a reference of the same spec, text, version and ranks");
    std::int64_t idle = 0;
    for (std::int64_t step = 0; s.band && step < run.spec.steps; ++step)
      idle += s.band->is_idle(step) ? 1 : 0;
    if (idle > 0 && s.options.on_note)
      s.options.on_note("the twins' limits say nothing of gradients at " + std::to_string(idle) +
                        " of " + std::to_string(run.spec.steps) +
                        " steps: no distance can reach them");
    const std::int64_t known = s.reference->last_step() + 1;
    if (known < run.spec.steps && s.options.on_note)
      s.options.on_note("the reference has " + std::to_string(known) + " of " +
                        std::to_string(run.spec.steps) +
                        " steps: the others are not compared with it");
  }
  const auto count = s.tracer.parameters().size() + 1;
  const double comparisons = static_cast<double>(count) * static_cast<double>(run.spec.steps);
  s.trends.assign(count, Trend(s.options.alpha, comparisons));
  const double error = norm_bound(1, 1, run.layout.count(), 1, run.spec.policy);
  if (s.options.on_note && error >= 1)
    s.options.on_note("the check of the norm says nothing here: its bound is " + legible(error) +
                      " of the norm");
  if (s.options.on_note)
    for (const std::string& line : suspicious_settings(run.spec, run.sampler.windows()))
      s.options.on_note("settings: " + line);
}

void Sentinel::begin_step(std::int64_t) {
  State& s = *state_;
  s.overflow.clear();
  if (!s.scans) return;
  s.told.weights = s.weight_hash();
  if (s.left && *s.left != s.told.weights) s.told.is_weights = 1;
}

void Sentinel::accept_state() {
  state_->left.reset();
  state_->parted.reset();
}

std::uint64_t Sentinel::State::weight_hash() const {
  const Element e = element_of(run->spec.policy.master);
  const std::vector<std::byte> own =
      train::owned_array(run->machine, run->owned, e, run->arrays.master);
  // Of words of 8 bytes: an array's length is a multiple of 64 elements.
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < std::ssize(own) / 8; ++i)
    hash += element_hash(i, opbound::detail::read_element<std::uint64_t>(own.data(), i));
  return hash;
}

void Sentinel::sample(std::int64_t step, std::int64_t micro_batch, train::Sample& sample) {
  Told& told = state_->told;
  const std::uint64_t key = element_hash(micro_batch, element_hash(step, state_->run->spec.seed));
  const bool is_seed = sample.random_key != key;
  const bool is_tokens = sample.step != step || sample.micro_batch != micro_batch;
  if (told.is_seed == 0 && told.is_tokens == 0 && (is_seed || is_tokens))
    told.micro_batch = micro_batch;
  told.is_seed |= static_cast<std::uint8_t>(is_seed);
  told.is_tokens |= static_cast<std::uint8_t>(is_tokens);
}

void Sentinel::gradient(std::int64_t, std::int64_t micro_batch, std::byte* flat) {
  State& s = *state_;
  if (!s.scans || s.told.is_nonfinite != 0) return;
  const std::int64_t at =
      first_nonfinite(element_of(s.run->spec.policy.gradient), flat, s.run->layout.count());
  if (at < 0) return;
  s.told.is_nonfinite = 1;
  s.told.micro_batch = micro_batch;
  s.told.element = at;
}

/// Before anything is stepped: what any rank found is an alarm on every rank.
void Sentinel::State::tell(std::int64_t step) {
  const std::vector<std::byte> all = run->ranks.gather(std::as_bytes(std::span(&told, 1)));
  const bool may_overflow = run->spec.policy.loss_scale == train::LossScale::dynamic;
  Told first;
  std::memcpy(&first, all.data(), sizeof first);
  const auto alarm = [&](const char* check, std::string place, std::string text) {
    take({step, "step", check, std::move(place), std::move(text)});
  };
  for (std::int32_t r = 0; r < run->ranks.size(); ++r) {
    Told t;
    std::memcpy(&t, all.data() + static_cast<std::size_t>(r) * sizeof t, sizeof t);
    const std::string where =
        "rank " + std::to_string(r) + ", micro-batch " + std::to_string(t.micro_batch);
    if (run->is_whole() && t.weights != first.weights && t.is_weights == first.is_weights)
      alarm("weights", "weights, rank " + std::to_string(r), "not those of rank 0");
    if (t.is_seed != 0)
      alarm("seed", "seed, " + where, "random numbers of another step or micro-batch");
    if (t.is_tokens != 0)
      alarm("tokens", "tokens, " + where, "texts of another step or micro-batch");
    if (t.is_weights != 0)
      alarm("weights", "weights, rank " + std::to_string(r), "not those that the last step left");
    if (t.is_nonfinite == 0) continue;
    const auto& parameters = run->layout.parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const train::Range range = run->layout.parameter(p);
      if (t.element < range.begin || t.element >= range.end) continue;
      const std::string place = parameters[p].name + ", " + where;
      if (overflow.empty()) overflow = place;
      if (!may_overflow)
        alarm("not finite", place,
              "element " + std::to_string(t.element - range.begin) + " of its gradient");
    }
  }
  told = {};
}

void Sentinel::reduced(std::int64_t step) { state_->tell(step); }

void Sentinel::normed(std::int64_t, std::byte*, std::int64_t count, Element) {
  state_->chunks = count;
}

/// A dynamic loss scale is halved until nothing overflows. At 1 or less it makes nothing larger,
/// and the loss is not scaled: neither is an overflow that it could cure.
void Sentinel::State::check_scale(const train::StepResult& result) {
  if (run->spec.policy.loss_scale != train::LossScale::dynamic || !result.is_skipped) return;
  const bool is_lost = !std::isfinite(result.loss);
  if (!is_lost && result.loss_scale > 1) return;
  found(result.step, "step", "not finite",
        is_lost            ? "loss"
        : overflow.empty() ? "gradient"
                           : overflow,
        is_lost
            ? "the loss is not finite, which no loss scale cures"
            : "at a loss scale of " + shortest(result.loss_scale) + ", which makes nothing larger");
}

void Sentinel::State::check_norm(const train::StepResult& result) {
  double square = 0;
  std::int64_t count = 0, nonfinite = 0;
  for (const GradientSums& g : tracer.last().gradients) {
    square += g.square;
    count += g.count;
    nonfinite += g.nonfinite;
  }
  const double norm = std::sqrt(square) / result.loss_scale;
  const double bound = norm_bound(norm, result.loss_scale, count, chunks, run->spec.policy);
  if (nonfinite > 0 || result.is_skipped || std::abs(result.gradient_norm - norm) <= bound) return;
  found(result.step, "step", "norm", "norm of the gradient",
        "clipping took " + shortest(result.gradient_norm) + ", the gradient's norm is " +
            shortest(norm) + " within " + legible(bound));
}

void Sentinel::State::check_reference(std::int64_t step) {
  if (!reference || (parted && *parted <= step)) return;
  const std::optional<TraceStep> there = reference->step(step);
  if (!there) return;
  const StepDistance d = distance_of(*there, tracer.last());
  if (band && band->has_parted(d)) {
    parted = step;
    if (options.on_note)
      options.on_note(
          "step " + std::to_string(step) + ": " +
          (there->is_skipped ? "the reference" : "this run") +
          " alone skipped the update, as a dynamic loss scale may: from here on there is "
          "no reference");
    return;
  }
  if (const std::optional<Excess> e = excess_of(d, band ? &*band : nullptr))
    found(step, "reference", "fingerprint", tracer.parameters()[e->parameter].name,
          "distance " + legible(e->distance) + " from the reference, limit " + legible(e->limit));
  const double kl_limit = band ? band->kl_limit(step) : 0;
  if (d.kl_nats && *d.kl_nats > kl_limit)
    found(step, "end to end", "prompts", "prompts",
          "mean KL divergence " + legible(*d.kl_nats) + " nats from the reference, limit " +
              legible(kl_limit) + "; the same most likely token after " +
              legible(100 * *d.top1_share) + "% of them");
  const double limit = band ? band->loss_limit(step) : 0;
  if (d.loss > limit)
    found(step, "reference", "loss", "loss",
          legible(d.loss) + " from the reference's, limit " + legible(limit));
}

void Sentinel::State::check_trend(const train::StepResult& result) {
  if (result.is_skipped) return;
  const std::vector<GradientSums>& gradients = tracer.last().gradients;
  std::size_t worst = 0;
  double most = 0;
  for (std::size_t p = 0; options.watches_norms && p < gradients.size(); ++p) {
    const double norm = gradients[p].norm() / result.loss_scale;
    const double excess = norm > 0 ? trends[p].take(std::log10(norm)) : 0;
    if (excess <= most) continue;
    most = excess;
    worst = p;
  }
  const auto say = [&](const char* check, const std::string& place, double excess) {
    found(result.step, "trend", check, place, legible(excess) + " times its limit away");
  };
  if (most > 1) say("norm's trend", tracer.parameters()[worst].name, most);
  const double excess = trends.back().take(result.loss);
  if (!std::isfinite(result.loss))
    found(result.step, "step", "not finite", "loss", "the loss is " + shortest(result.loss));
  else if (excess > 1)
    say("loss's trend", "loss", excess);
}

void Sentinel::State::take_findings(std::int64_t step) {
  if (audit == nullptr) return;
  const std::vector<Finding> all = audit->findings();
  for (; findings_seen < all.size(); ++findings_seen)
    found(step, "step", "audit: " + all[findings_seen].check, text_of(all[findings_seen]),
          all[findings_seen].text);
}

void Sentinel::updated(const train::StepResult& result) {
  State& s = *state_;
  s.check_scale(result);
  s.check_norm(result);
  s.take_findings(result.step);
  s.check_reference(result.step);
  s.check_trend(result);
  s.share();
  ++s.watched;
  if (s.scans) s.left = s.weight_hash();
}

}  // namespace opbound::trace
