#include "distributed/trace/detection.hpp"

#include <algorithm>
#include <set>

#include "distributed/trace/breaker.hpp"
#include "distributed/trace/jobs.hpp"
#include "distributed/trace/sentinel.hpp"
#include "distributed/trace/twin.hpp"
#include "distributed/train/trainer.hpp"
#include "ops/provider.hpp"

namespace opbound::trace {
namespace {

bool is_audit(const TraceEvent& e) { return e.check.starts_with("audit: "); }

/// Which of a result's fields an alarm belongs to.
std::optional<std::int64_t>& field_of(Detected& d, const TraceEvent& e) {
  if (is_audit(e)) return d.audit;
  if (e.check == "fingerprint") return d.fingerprint;
  return e.check == "loss" ? d.loss_to_reference : d.step_check;
}

/// How exact a place an alarm names: an audit's call, a step check, a parameter, none.
int rank_of(const TraceEvent& e) {
  if (is_audit(e)) return 3;
  if (e.level == "step") return 2;
  return e.place == "loss" ? 0 : 1;
}

TracerOptions of_every_step() {
  TracerOptions o;
  o.full_every = 0;
  return o;
}

AuditOptions of_every(std::int64_t steps) {
  AuditOptions o;
  o.every = steps;
  return o;
}

/// Faults of one key have one reference.
std::string key_of(const PlantedFault& fault) {
  return std::string(fault.policy) + "-" + std::to_string(fault.dropout) + "-" +
         std::to_string(fault.recomputes) + "-" + std::to_string(fault.norm_eps);
}

/// What looks on at a run, in this order.
struct Watch {
  Watch(const DetectionOptions& o, SentinelOptions watched)
      : tracer(of_every_step()),
        audit(of_every(o.audit_every)),
        sentinel(std::move(watched), tracer, &audit) {}

  Tracer tracer;
  Audit audit;
  Sentinel sentinel;
};

}  // namespace

Detection::Detection(DetectionOptions options) : options_(std::move(options)) {}

train::TrainingSpec Detection::spec_of(const PlantedFault& fault) const {
  train::TrainingSpec spec = options_.base;
  spec.policy = train::read_policy(std::string(fault.policy));
  spec.policy.dropout = fault.dropout;
  if (fault.recomputes) spec.policy.checkpointing = train::Checkpointing::all;
  spec.model.norm_eps = fault.norm_eps;
  spec.steps = options_.first_step + options_.cap;
  spec.checkpoint_folder.clear();
  spec.checkpoint_every = 0;
  return spec;
}

void Detection::train_traced(const train::TrainingSpec& spec, const std::string& file,
                             int twin) const {
  TracerOptions how = of_every_step();
  how.file = file;
  how.head.source = "opbound";
  Tracer tracer(how);
  Twin moved(static_cast<std::uint64_t>(twin));
  train::TrainOptions options;
  if (twin > 0) options.observers.push_back(&moved);
  options.observers.push_back(&tracer);
  options.should_stop = options_.should_stop;
  train::train(spec, options);
}

const Detection::Reference* Detection::find_reference(const std::string& key) const {
  for (const Reference& r : references_)
    if (r.key == key) return &r;
  return nullptr;
}

std::int64_t Detection::missing_references(std::span<const PlantedFault* const> faults) const {
  std::set<std::string> keys;
  for (const PlantedFault* fault : faults)
    if (find_reference(key_of(*fault)) == nullptr) keys.insert(key_of(*fault));
  return std::ssize(keys) * (1 + options_.twins);
}

void Detection::train_references(std::span<const PlantedFault* const> faults) {
  std::vector<Job> jobs;
  for (const PlantedFault* fault : faults) {
    if (find_reference(key_of(*fault)) != nullptr) continue;
    const auto file = [&](int twin) {
      const std::string name = std::to_string(references_.size()) + "-" + std::to_string(twin);
      return (options_.folder / (name + ".trace")).string();
    };
    Reference r{key_of(*fault), file(0), {}};
    for (int twin = 0; twin <= options_.twins; ++twin) {
      if (twin > 0) r.twins.push_back(file(twin));
      const auto run = [this, fault, twin, to = file(twin)] {
        begin((twin == 0 ? "reference" : "twin " + std::to_string(twin)) + " of policy " +
              std::string(fault->policy));
        train_traced(spec_of(*fault), to, twin);
      };
      jobs.push_back({run, options_.on_reference});
    }
    references_.push_back(std::move(r));
  }
  run_jobs(jobs, options_.workers, options_.should_stop);
}

void Detection::begin(const std::string& what) const {
  if (options_.on_progress) options_.on_progress(what);
}

void Detection::run(const PlantedFault& fault, train::Observer& planted, Detected& found) const {
  const Reference* const trained = find_reference(key_of(fault));
  detail::require(trained != nullptr, "references are trained before faults are examined");
  const Reference& reference = *trained;
  Watch watch(options_, {reference.trace, reference.twins, options_.alpha});
  TraceFile there(reference.trace, TraceFile::Open::read);
  train::TrainOptions options;
  options.observers = {&planted, &watch.tracer, &watch.audit, &watch.sentinel};
  options.on_step = [&](const train::StepResult& step) {
    const std::optional<TraceStep> other = there.step(step.step);
    if (found.cosine_rule || !other || distance_of(*other, watch.tracer.last()).cosine >= 0.9999)
      return;
    found.cosine_rule = step.step - options_.first_step;
  };
  options.should_stop = options_.should_stop;
  try {
    train::train(spec_of(fault), options);
  } catch (const ProviderFailure&) {
    found.has_stopped = true;  // a gradient that is not finite
  }
  const TraceEvent* best = nullptr;
  for (const TraceEvent& e : watch.sentinel.alarms()) {
    if (e.step < options_.first_step) {
      ++found.false_alarms;
      continue;
    }
    std::optional<std::int64_t>& field = field_of(found, e);
    if (!field) field = e.step - options_.first_step;
    if (best == nullptr || rank_of(e) > rank_of(*best)) best = &e;
  }
  for (const TraceEvent& e : watch.sentinel.suspicions())
    if (e.step >= options_.first_step && !found.loss_alone)
      found.loss_alone = e.step - options_.first_step;
  if (best == nullptr) return;
  found.place = best->place;
  found.is_place_right = fault.is_named_by(best->place);
}

Detected Detection::examine(const PlantedFault& fault) const {
  begin(std::string(fault.name));
  Detected found;
  found.fault = &fault;
  const std::unique_ptr<train::Observer> planted = fault.make(options_.first_step);
  run(fault, *planted, found);
  return found;
}

Detected Detection::examine_twin(const PlantedFault& like) const {
  begin("another twin of policy " + std::string(like.policy));
  Detected found;
  found.fault = &like;
  Twin planted(static_cast<std::uint64_t>(options_.twins) + 1);
  run(like, planted, found);
  return found;
}

CleanRun Detection::examine_clean(const std::string& policy, std::int64_t steps) const {
  begin("clean run of policy " + policy);
  train::TrainingSpec spec = options_.base;
  spec.policy = train::read_policy(policy);
  spec.steps = steps;
  Watch watch(options_, {{}, {}, options_.alpha});
  train::TrainOptions options;
  options.observers = {&watch.tracer, &watch.audit, &watch.sentinel};
  options.should_stop = options_.should_stop;
  CleanRun clean{policy, train::train(spec, options).steps, 0, {}};
  clean.alarms = std::ssize(watch.sentinel.alarms());
  if (clean.alarms > 0) clean.first_alarm = text_of(watch.sentinel.alarms().front());
  return clean;
}

}  // namespace opbound::trace
