#include "distributed/trace/audit.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "distributed/trace/state_watch.hpp"
#include "distributed/trace/step_check.hpp"
#include "ops/hash.hpp"
#include "reports/text.hpp"

namespace opbound::trace {
namespace {

using Clock = std::chrono::steady_clock;
using train::CallPlace;

std::uint64_t seed_of(std::uint64_t seed, std::initializer_list<std::int64_t> places) {
  for (const std::int64_t p : places) seed = element_hash(p + 1, seed);  // -1 is a place too
  return seed;
}

std::string word(const train::Sample& s) {
  return "step " + std::to_string(s.step) + ", micro-batch " + std::to_string(s.micro_batch);
}

}  // namespace

/// What one run is watched with.
struct Audit::Run {
  Run(const train::RunView& view, const AuditOptions& options, const Links::Report& report)
      : run(view),
        links(run, report),
        check(run, links, seed_of(options.seed, {0}), report),
        state(run, links, report),
        providers(view.machine, options.make_provider) {}

  /// What the call reads, if it writes there too: as it was before.
  void keep_inputs(const train::Step& step, const Call& here) {
    inputs.clear();
    const auto& tensors = step.spec.op->pass(step.spec.direction).tensors;
    const auto is_written = [&](int value) {
      for (std::size_t t = 0; t < tensors.size(); ++t)
        if (tensors[t].is_written() && step.tensors[t].value == value) return true;
      return false;
    };
    const auto views = here.judged();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].is_written() || !step.tensors[t].exists()) continue;
      if (!is_written(step.tensors[t].value)) continue;
      Tensor copy(views[t].element, Shape(views[t].size, views[t].size + views[t].rank));
      detail::require(views[t].is_contiguous(), "what is written in place is contiguous");
      std::memcpy(copy.bytes().data(), views[t].data, copy.bytes().size());
      inputs.emplace(t, std::move(copy));
    }
  }

  train::RunView run;
  Links links;
  StepCheck check;
  StateWatch state;
  train::ProviderTable providers;
  std::map<std::size_t, Tensor> inputs;       ///< of the call that runs, by tensor
  train::Sample sample;                       ///< as it should be
  std::map<std::int64_t, std::string> seeds;  ///< that were drawn with, and where
  Clock::time_point begun;
  std::int64_t step = -1;
  bool is_audited = false, follows = false;  ///< follows: the next step is audited
};

double AuditSummary::times_longer() const {
  if (steps == 0 || other_steps == 0 || other_ms == 0) return 0;
  return audited_ms / static_cast<double>(steps) / (other_ms / static_cast<double>(other_steps));
}

Audit::Audit(AuditOptions options) : options_(std::move(options)) {}
Audit::~Audit() = default;

bool Audit::is_chosen(std::int64_t step) const {
  if (options_.every > 0 && step % options_.every == 0) return true;
  return std::find(options_.steps.begin(), options_.steps.end(), step) != options_.steps.end();
}

void Audit::audit_next_step() {
  next_is_asked_ = true;
  if (run_ != nullptr && run_->step >= 0) run_->state.keep();
}

void Audit::accept_state() {
  if (run_ != nullptr) run_->state.forget();
}

std::vector<Finding> Audit::findings() const {
  std::vector<Finding> all = findings_;
  all.insert(all.end(), own_.begin(), own_.end());
  return all;
}

AuditSummary Audit::summary() const { return summary_; }

void Audit::report(Finding finding) {
  finding.step = run_->step;
  finding.rank = run_->run.ranks.rank();
  if (own_.size() < most_findings)
    own_.push_back(std::move(finding));
  else
    ++summary_.findings;
}

void Audit::begin(const train::RunView& run) {
  run_ = std::make_unique<Run>(run, options_, [this](Finding f) { report(std::move(f)); });
}

void Audit::begin_step(std::int64_t step) {
  Run& r = *run_;
  r.begun = Clock::now();
  r.step = step;
  r.is_audited = is_chosen(step) || next_is_asked_;
  r.follows = is_chosen(step + 1);
  next_is_asked_ = false;
  if (!r.is_audited) return;
  r.links.forget(false);
  r.check.begin(step);
  r.state.begin_step();
}

void Audit::sample(std::int64_t step, std::int64_t micro_batch, train::Sample& sample) {
  Run& r = *run_;
  if (!r.is_audited) return;
  r.links.forget(true);
  r.sample = {step, micro_batch, element_hash(micro_batch, element_hash(step, r.run.spec.seed))};
  Finding f;
  f.micro_batch = micro_batch;
  f.wrong = 1;
  if (sample.random_key != r.sample.random_key) {
    f.check = "seed";
    f.tensor = "random key";
    f.text = "the random numbers are those of another step or micro-batch";
    report(f);
  }
  if (sample.step != step || sample.micro_batch != micro_batch) {
    f.check = "tokens";
    f.tensor = "tokens";
    f.text = "the tokens are those of " + word(sample);
    report(f);
  }
  const train::TrainingSpec& spec = r.run.spec;
  Tensor tokens(Element::int64, {spec.sequences, spec.model.context}), targets = tokens;
  r.run.sampler.fill(sample.step, sample.micro_batch, tokens.view(), targets.view());
  const auto expect = [&](const train::Ref& ref, const char* name, const Tensor& what) {
    Expected e{"tokens", name, {}, {}};
    e.what.set(Element::int64, 0, what.count(), what.bytes().data());
    r.links.expect(ref.value, std::move(e));
  };
  expect(r.run.refs.tokens, "tokens", tokens);
  expect(r.run.refs.targets, "targets", targets);
}

bool Audit::sees_calls(std::int64_t, std::int64_t micro_batch) {
  return run_->is_audited || (run_->follows && micro_batch < 0);
}

void Audit::before_call(const CallPlace& place, const train::Step& step, const Call& call) {
  Run& r = *run_;
  if (!r.is_audited) return;
  r.links.before(place, step, call);
  r.keep_inputs(step, r.links.here(place, step, call));
  r.check.call(place, step, call);
  if (step.site < 0) return;
  const auto expected =
      static_cast<std::int64_t>(element_hash(step.site, r.sample.random_key) >> 1);
  std::int64_t seed = 0;
  for (const AttributeSpec& a : step.spec.op->attributes)
    if (a.name == "seed") seed = std::get<std::int64_t>(a.get(call.attributes));
  const std::string where = word(r.sample) + ", site " + std::to_string(step.site);
  const auto [known, is_new] = r.seeds.try_emplace(seed, where);
  if (seed == expected && known->second == where) return;
  Finding f;
  f.check = "seed";
  f.micro_batch = place.micro_batch;
  f.layer = step.layer;
  f.call = static_cast<std::int64_t>(place.index);
  f.part = step.part;
  f.op = step.spec.op->name;
  f.direction = name_of(step.spec.direction);
  f.tensor = "seed";
  f.got = static_cast<double>(seed);
  f.low = f.high = static_cast<double>(expected);
  f.wrong = 1;
  f.text = "the seed is not that of " + where;
  if (known->second != where) f.text += " but that of " + known->second;
  report(std::move(f));
}

void Audit::after_call(const CallPlace& place, const train::Step& step, const Call& call) {
  Run& r = *run_;
  r.links.after(place, step, call);
  if (!r.is_audited) return;
  PastCall past{place, &step, r.links.here(place, step, call), nullptr, r.run.ranks.rank(), 0};
  auto& views = call.direction == Direction::forward ? past.call.forward : past.call.backward;
  for (auto& [t, tensor] : r.inputs) views[t] = tensor.view();
  past.provider = &r.providers.named(step.provider);
  past.seed = seed_of(options_.seed, {place.step, r.run.ranks.rank(), place.micro_batch,
                                      static_cast<std::int64_t>(place.phase),
                                      static_cast<std::int64_t>(place.index)});
  CallResult result = judge_call(past, options_.share);
  ++summary_.calls;
  summary_.records += std::ssize(result.records);
  summary_.elements += result.elements;
  if (options_.on_record)
    for (const Record& record : result.records) options_.on_record(record);
  for (Finding& f : result.findings) report(std::move(f));
  r.links.release(place, step);
}

void Audit::gradient(std::int64_t, std::int64_t micro_batch, std::byte* flat) {
  if (run_->is_audited) run_->check.gradient(micro_batch, flat);
}

void Audit::reduced(std::int64_t step) {
  if (run_->is_audited) run_->check.mean(step);
}

void Audit::normed(std::int64_t, std::byte* norms, std::int64_t count, Element element) {
  if (run_->is_audited) run_->check.norms(norms, count, element);
}

void Audit::updated(const train::StepResult& result) {
  Run& r = *run_;
  if (r.is_audited) r.check.end(result);
  if (r.is_audited || r.follows) r.state.compare();
  r.state.forget();
  if (r.follows || next_is_asked_) r.state.keep();
  if (r.is_audited || r.follows) share_findings();
  if (r.is_audited || r.follows) r.links.forget(false);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - r.begun).count();
  (r.is_audited ? summary_.audited_ms : summary_.other_ms) += ms;
  ++(r.is_audited ? summary_.steps : summary_.other_steps);
}

/// Every rank learns what the others found.
void Audit::share_findings() {
  Collectives& ranks = run_->run.ranks;
  std::string text;
  for (const Finding& f : own_) text += to_json(f) + "\n";
  own_.clear();
  for (const std::string& part : gathered_texts(ranks, text))
    for (std::size_t at = 0; at < part.size(); at = part.find('\n', at) + 1) {
      ++summary_.findings;
      if (findings_.size() < most_findings)
        findings_.push_back(finding_of(part.substr(at, part.find('\n', at) - at)));
    }
}

}  // namespace opbound::trace
