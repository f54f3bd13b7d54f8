#include "tools/command_train_observe.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "distributed/launch.hpp"
#include "generated/version.hpp"
#include "reports/error.hpp"
#include "tools/command_line.hpp"

namespace opbound {

void add_observe_options(CLI::App& command, ObserveOptions& o) {
  const auto steps = CLI::Range(std::int64_t{0}, std::int64_t{1} << 40);
  CLI::Option* trace =
      command
          .add_option("--trace", o.trace,
                      "Keep fingerprints of every step's gradient in this file, an SQLite database")
          ->type_name("FILE.trace");
  command
      .add_option("--trace-full", o.full_every,
                  "Steps from one full fingerprint to the next, singular values and updates among "
                  "it, and the bits of all calls; 0: none")
      ->type_name("STEPS")
      ->check(steps)
      ->capture_default_str()
      ->needs(trace);
  command
      .add_option("--trace-prompts", o.prompts_every,
                  "Ask the 100 corner-case prompts after each so many steps; 0: never")
      ->type_name("STEPS")
      ->check(steps)
      ->capture_default_str();
  command.add_option("--trace-bits", o.bits_of, "Keep the bits of all calls of these steps too")
      ->type_name("STEP")
      ->check(steps)
      ->needs(trace);
  command
      .add_option("--twin", o.twin,
                  "Draw the rounding again: begin with weights moved by half an ulp or less, by "
                  "this seed from 1")
      ->type_name("SEED")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command
      .add_option("--times", o.times,
                  "Print how long the calls of this step took, by op; the first steps warm up")
      ->type_name("STEP")
      ->check(steps);
  command.add_flag("--sentinel", o.has_sentinel,
                   "Watch every step: texts, random numbers, weights, norms, what is not finite");
  command.add_flag("--watch-norms", o.watches_norms,
                   "With --sentinel: every parameter's norm against its last 50 values; healthy "
                   "runs have outliers, so that false alarms are more frequent than --alpha says");
  CLI::Option* against =
      command
          .add_option("--against", o.against,
                      "Watch every step against this trace of a reference run, bit for bit where "
                      "both compute the same; --sentinel with it")
          ->type_name("FILE.trace");
  command
      .add_option("--twins", o.twins,
                  "Twins of the reference, at least 2: gradients may differ by what rounding alone "
                  "makes of a run")
      ->type_name("FILE.trace")
      ->needs(against);
  command.add_option("--alpha", o.alpha, "Probability of a false alarm in a run")
      ->type_name("SHARE")
      ->check(between(1e-9, 0.5))
      ->capture_default_str();
  command
      .add_option("--on-alarm", o.on_alarm,
                  "note: say so and go on; stop; roll-back: to the last checkpoint before it")
      ->check(CLI::IsMember(
          std::vector<std::string>(trace::on_alarm_names.begin(), trace::on_alarm_names.end())))
      ->capture_default_str();
}

Observers::Observers(const ObserveOptions& o, const std::string& device, trace::Audit* audit,
                     const Note& on_note)
    : options_(o), device_(device), audit_(audit) {
  if (o.times) times_.emplace(*o.times);
  if (o.twin > 0) twin_.emplace(static_cast<std::uint64_t>(o.twin));
  const bool watches = o.watches();
  if (!watches && o.on_alarm != "note")
    throw InputError("--on-alarm", "nothing raises alarms", "--sentinel or --against with it");
  if (!watches && o.watches_norms)
    throw InputError("--watch-norms", "nothing watches", "--sentinel or --against with it");
  if (o.trace.empty() && !watches && o.prompts_every > 0)
    throw InputError("--trace-prompts", "nothing keeps or compares the answers",
                     "--trace, --sentinel or --against with it");
  if (o.trace.empty() && !watches) return;
  trace::TracerOptions options;
  options.file = o.trace;
  options.full_every = o.trace.empty() ? 0 : o.full_every;
  options.bits_of = {o.bits_of.begin(), o.bits_of.end()};
  options.prompts_every = o.prompts_every;
  if (o.prompts_every > 0) options.prompts = train::corner_case_prompts();
  options.device = device;
  options.head.source = std::string("opbound ") + version + " " + commit;
  options.head.environment = own_provider(device)->environment();
  if (o.twin > 0) options.head.environment.emplace_back("twin", std::to_string(o.twin));
  if (watches) options.head.environment.emplace_back(trace::watched_by, "sentinel");
  tracer_.emplace(std::move(options));
  if (watches)
    sentinel_.emplace(trace::SentinelOptions{o.against, o.twins, o.alpha, o.watches_norms, on_note},
                      *tracer_, audit);
}

void Observers::attach(train::TrainOptions& how) {
  const auto place =
      std::find(trace::on_alarm_names.begin(), trace::on_alarm_names.end(), options_.on_alarm);
  const auto on_alarm = static_cast<trace::OnAlarm>(place - trace::on_alarm_names.begin());
  if (on_alarm == trace::OnAlarm::roll_back && how.checkpoint_folder.empty())
    throw InputError("--on-alarm", "roll-back in a run without checkpoints",
                     "--checkpoint FOLDER and --checkpoint-every STEPS");
  if (times_) how.observers.push_back(&*times_);
  if (twin_ && !how.resume) how.observers.push_back(&*twin_);
  if (tracer_) {
    tracer_->go_on(how.resume);
    how.observers.push_back(&*tracer_);
  }
  if (audit_ != nullptr) how.observers.push_back(audit_);
  if (!sentinel_) return;
  how.observers.push_back(&*sentinel_);
  breaker_.emplace(*sentinel_, audit_, on_alarm, how.checkpoint_folder, how.on_note);
  how.judge = [this](train::Trainer& trainer) { return breaker_->judge(trainer); };
}

int Observers::end(int code, bool is_quiet) const {
  if (sentinel_ && !is_quiet && own_rank() == 0)
    std::fprintf(stderr, "opbound: sentinel: %s\n", sentinel_->summary().c_str());
  if (times_ && own_rank() == 0) print(times_->table(Terminal::of(STDOUT_FILENO)));
  const bool is_alarmed = sentinel_ && !sentinel_->alarms().empty();
  return is_alarmed && code == exit_clean ? static_cast<int>(exit_found) : code;
}

}  // namespace opbound
