#include "tools/command_train_observe.hpp"

#include "distributed/trace/twin.hpp"
#include "generated/version.hpp"
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
}

Observers::Observers(const ObserveOptions& o, const train::TrainingSpec&, const std::string& device,
                     bool resumes) {
  if (o.twin > 0 && !resumes)
    all_.push_back(std::make_unique<trace::Twin>(static_cast<std::uint64_t>(o.twin)));
  if (!o.trace.empty()) {
    trace::TracerOptions options;
    options.file = o.trace;
    options.goes_on = resumes;
    options.full_every = o.full_every;
    options.bits_of = {o.bits_of.begin(), o.bits_of.end()};
    options.head.source = std::string("opbound ") + version + " " + commit;
    options.head.environment = own_provider(device)->environment();
    if (o.twin > 0) options.head.environment.emplace_back("twin", std::to_string(o.twin));
    all_.push_back(std::make_unique<trace::Tracer>(std::move(options)));
  }
}

void Observers::attach(train::TrainOptions& how) const {
  for (const auto& observer : all_) how.observers.push_back(observer.get());
}

}  // namespace opbound
