#include "distributed/trace/sentinel.hpp"

#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstring>
#include <set>

#include "bounds/growth.hpp"
#include "distributed/trace/config_check.hpp"
#include "distributed/train/trainer.hpp"
#include "distributed/train/whole.hpp"
#include "ops/hash.hpp"
#include "ops/team.hpp"
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
  std::uint8_t is_seed = 0, is_tokens = 0, is_nonfinite = 0, is_weights = 0;
  std::array<std::uint8_t, 4> unused{};  // no bytes that are not set
};

}  // namespace

double norm_bound(double norm, double loss_scale, std::int64_t count, std::int64_t chunks,
                  const train::Policy& policy) {
  const train::OpRule rule = policy.rule("global_norm", -1);
  if (rule.variant == "plain") return HUGE_VAL;  // squares may over- and underflow
  const Format f = policy.rule("unscale", -1).precision.compute;
  constexpr std::int64_t shards = 64;
  const bool is_own = rule.provider.empty() || rule.provider == "own";
  const std::int64_t height = is_own ? sum_height((count + shards - 1) / shards, team_width) +
                                           sum_height(shards, team_width) +
                                           sum_height(chunks, team_width)
                                     : count + chunks;
  const double eta = f.smallest_subnormal();
  const double relative = growth(static_cast<double>(height + 14), f.unit_roundoff()) +
                          static_cast<double>(count) * (0x1p-53 + eta);
  return relative * norm + static_cast<double>(chunks + 2) * eta / std::min(1.0, loss_scale);
}

Trend::Trend(double alpha, double comparisons)
    : quantile_(boost::math::quantile(boost::math::complement(
          boost::math::students_t(static_cast<double>(window - 1)), alpha / comparisons / 2))) {}

double Trend::take(double value) {
  double excess = 0;
  if (last_.size() == window) {
    constexpr auto n = static_cast<double>(window);
    double mean = 0, square = 0;
    for (const double x : last_) mean += x / n;
    for (const double x : last_) square += (x - mean) * (x - mean);
    const double limit = quantile_ * std::sqrt(square / (n - 1)) * std::sqrt(1 + 1 / n);
    // A window of equal values expects that value, and no ratio is one of them.
    excess = limit > 0 ? std::abs(value - mean) / limit : 0;
    if (!std::isfinite(value)) excess = HUGE_VAL;
    last_.pop_front();
  }
  if (std::isfinite(value)) last_.push_back(value);
  return excess;
}

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
  Told told;
  std::int64_t chunks = 1;            ///< whose norms the update's norm is made of
  bool scans = false;                 ///< gradients and weights lie on the host
  std::optional<std::uint64_t> left;  ///< hash of the weights that the last step left
  std::vector<TraceEvent> alarms;
  std::set<std::string> kinds;

  void alarm(std::int64_t step, const char* level, std::string check, std::string place,
             std::string text) {
    // One audit for each kind of alarm: it finds again what lasts.
    if (audit != nullptr && kinds.insert(check).second) audit->audit_next_step();
    alarms.push_back({step, level, std::move(check), std::move(place), std::move(text)});
    tracer.note(alarms.back());
  }
  std::uint64_t weight_hash() const;
  void tell(std::int64_t step);
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

void Sentinel::begin(const RunView& run) {
  State& s = *state_;
  s.run.emplace(run);
  s.scans = !run.machine.own().is_on_device();
  if (s.reference) {
    if (s.reference->parameters() != s.tracer.parameters())
      throw InputError(s.options.reference, "a run of another model", "one of this model");
    s.must_agree = !s.band && must_agree_in_bits(s.reference->head(), head_of({}, run));
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
  if (s.left && *s.left != s.weight_hash()) s.told.is_weights = 1;
}

void Sentinel::accept_state() { state_->left.reset(); }

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
  for (std::int32_t r = 0; r < run->ranks.size(); ++r) {
    Told t;
    std::memcpy(&t, all.data() + static_cast<std::size_t>(r) * sizeof t, sizeof t);
    const std::string where =
        "rank " + std::to_string(r) + ", micro-batch " + std::to_string(t.micro_batch);
    if (t.is_seed != 0)
      alarm(step, "step", "seed", "seed, " + where,
            "random numbers of another step or micro-batch");
    if (t.is_tokens != 0)
      alarm(step, "step", "tokens", "tokens, " + where, "texts of another step or micro-batch");
    if (t.is_weights != 0)
      alarm(step, "step", "weights", "weights, rank " + std::to_string(r),
            "not those that the last step left");
    if (t.is_nonfinite == 0 || may_overflow) continue;
    const auto& parameters = run->layout.parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const train::Range range = run->layout.parameter(p);
      if (range.begin <= t.element && t.element < range.end)
        alarm(step, "step", "not finite", parameters[p].name + ", " + where,
              "element " + std::to_string(t.element - range.begin) + " of its gradient");
    }
  }
  told = {};
}

void Sentinel::reduced(std::int64_t step) { state_->tell(step); }

void Sentinel::normed(std::int64_t, std::byte*, std::int64_t count, Element) {
  state_->chunks = count;
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
  alarm(result.step, "step", "norm", "norm of the gradient",
        "clipping took " + shortest(result.gradient_norm) + ", the gradient's norm is " +
            shortest(norm) + " within " + legible(bound));
}

void Sentinel::State::check_reference(std::int64_t step) {
  if (!reference || (!band && !must_agree)) return;
  const std::optional<TraceStep> there = reference->step(step);
  if (!there) return;
  const StepDistance d = distance_of(*there, tracer.last());
  if (const std::optional<Excess> e = excess_of(d, band ? &*band : nullptr))
    alarm(step, "reference", "fingerprint", tracer.parameters()[e->parameter].name,
          "distance " + legible(e->distance) + " from the reference, limit " + legible(e->limit));
  const double kl_limit = band ? band->kl_limit(step) : 0;
  if (d.kl_nats && *d.kl_nats > kl_limit)
    alarm(step, "end to end", "prompts", "prompts",
          "mean KL divergence " + legible(*d.kl_nats) + " nats from the reference, limit " +
              legible(kl_limit) + "; the same most likely token after " +
              legible(100 * *d.top1_share) + "% of them");
  const double limit = band ? band->loss_limit(step) : 0;
  if (d.loss > limit)
    alarm(step, "reference", "loss", "loss",
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
    alarm(result.step, "trend", check, place, legible(excess) + " times its limit away");
  };
  if (most > 1) say("norm's trend", tracer.parameters()[worst].name, most);
  const double excess = trends.back().take(result.loss);
  if (excess > 1) say("loss's trend", "loss", excess);
}

void Sentinel::State::take_findings(std::int64_t step) {
  if (audit == nullptr) return;
  const std::vector<Finding> all = audit->findings();
  for (; findings_seen < all.size(); ++findings_seen)
    alarm(step, "step", "audit: " + all[findings_seen].check, text_of(all[findings_seen]),
          all[findings_seen].text);
}

void Sentinel::updated(const train::StepResult& result) {
  State& s = *state_;
  s.check_norm(result);
  s.take_findings(result.step);
  s.check_reference(result.step);
  s.check_trend(result);
  if (s.scans) s.left = s.weight_hash();
}

}  // namespace opbound::trace
