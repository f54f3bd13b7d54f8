// opbound sentinel: what finds a fault that is planted in a training run, how soon, and where it
// says the fault is.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "distributed/trace/detection.hpp"
#include "distributed/trace/jobs.hpp"
#include "generated/version.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "reports/scratch_folder.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

using namespace trace;  // the command is of that alone

struct Options {
  std::string file, out;
  std::vector<std::string> faults, policies;
  std::int64_t first = 25, cap = 300, audit_every = 10, clean_steps = 100;
  int twins = 3, workers = 0;
  double alpha = 1e-3;
  bool lists = false, is_quiet = false;
};

std::string steps_text(const std::optional<std::int64_t>& steps) {
  return steps ? std::to_string(*steps) : "-";
}

nlohmann::ordered_json json_of(const std::optional<std::int64_t>& steps) {
  return steps ? nlohmann::ordered_json(*steps) : nlohmann::ordered_json();
}

std::string line_of(const Detected& d, const char* kind) {
  const nlohmann::ordered_json j{{"schema", 1},
                                 {"kind", kind},
                                 {"commit", commit},
                                 {"fault", d.fault->name},
                                 {"policy", d.fault->policy},
                                 {"step_check", json_of(d.step_check)},
                                 {"audit", json_of(d.audit)},
                                 {"fingerprint", json_of(d.fingerprint)},
                                 {"loss_to_reference", json_of(d.loss_to_reference)},
                                 {"loss_alone", json_of(d.loss_alone)},
                                 {"cosine_rule", json_of(d.cosine_rule)},
                                 {"false_alarms", d.false_alarms},
                                 {"place", d.place},
                                 {"place_is_right", d.is_place_right},
                                 {"stopped", d.has_stopped}};
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_head() {
  print("steps from the fault to the alarm; -: not within the cap\n\n");
  print(fmt::format("{:<23}{:<6}{:>6}{:>7}{:>13}{:>10}{:>7}{:>9}  {:<7}{}\n", "fault", "policy",
                    "step", "audit", "fingerprint", "loss to", "loss", "cosine", "place", "named"));
  print(fmt::format("{:<23}{:<6}{:>6}{:>7}{:>13}{:>10}{:>7}{:>9}\n", "", "", "check", "", "",
                    "reference", "alone", "< 0.9999"));
}

void print_line(const Detected& d, std::string_view name) {
  print(fmt::format("{:<23}{:<6}{:>6}{:>7}{:>13}{:>10}{:>7}{:>9}  {:<7}{}\n", name, d.fault->policy,
                    steps_text(d.step_check), steps_text(d.audit), steps_text(d.fingerprint),
                    steps_text(d.loss_to_reference), steps_text(d.loss_alone),
                    steps_text(d.cosine_rule),
                    d.place.empty()    ? "none"
                    : d.is_place_right ? "right"
                                       : "wrong",
                    d.place.substr(0, 70)));
}

/// Steps of a clean run: one of emulated matrix units takes as long as ten others.
std::int64_t clean_steps_of(const std::string& policy, std::int64_t steps) {
  const bool is_slow = policy.starts_with("emulated") || policy == "tf32";
  return is_slow ? (steps + 9) / 10 : steps;
}

std::string line_of(const CleanRun& c) {
  const nlohmann::ordered_json j{{"schema", 1},
                                 {"kind", "clean_training_run"},
                                 {"commit", commit},
                                 {"policy", c.policy},
                                 {"steps", c.steps},
                                 {"alarms", c.alarms},
                                 {"first_alarm", c.first_alarm}};
  return j.dump();
}

/// A bar for someone who watches; for everyone else a line for each run that begins.
class SharedProgress {
 public:
  explicit SharedProgress(std::int64_t runs)
      : bar_(static_cast<std::uint64_t>(runs), "opbound sentinel") {}

  void begin(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (isatty(STDERR_FILENO) == 0) std::fprintf(stderr, "opbound: %s\n", what.c_str());
    bar_.advance(0, what);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    bar_.advance();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    bar_.clear();
  }

 private:
  std::mutex mutex_;
  Progress bar_;
};

class Sentry {
 public:
  /// Refuses what is wrong in the options before it opens a file or trains.
  explicit Sentry(const Options& o)
      : options_(o),
        workers_(o.workers > 0
                     ? o.workers
                     : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))) {
    for (const std::string& name : o.faults) planted_fault(name);
    for (const std::string& name : o.policies) train::read_policy(name);
    DetectionOptions how;
    how.base = train::read_training(o.file);
    require_plantable(how.base);
    if (!o.out.empty()) writer_.emplace(o.out);
    how.folder = scratch_.path();
    how.first_step = o.first;
    how.cap = o.cap;
    how.twins = o.twins;
    how.alpha = o.alpha;
    how.audit_every = o.audit_every;
    how.workers = workers_;
    how.should_stop = InterruptNoted::has_come;
    how.on_progress = [this](const std::string& what) {
      if (progress_) progress_->begin(what);
    };
    how.on_reference = [this] { end_run(); };
    detection_.emplace(std::move(how));
  }

  int run() {
    std::vector<const PlantedFault*> faults;
    for (const PlantedFault& f : planted_faults())
      if (options_.faults.empty() || std::find(options_.faults.begin(), options_.faults.end(),
                                               f.name) != options_.faults.end())
        faults.push_back(&f);
    std::vector<Job> jobs;
    add_faults(faults, jobs);
    add_twins(faults, jobs);
    add_clean(jobs);
    if (!options_.is_quiet)
      progress_.emplace(detection_->missing_references(faults) + std::ssize(jobs));
    print_head();
    detection_->train_references(faults);
    run_jobs(jobs, workers_, InterruptNoted::has_come);
    clear_line();
    if (InterruptNoted::has_come()) return exit_interrupted;
    print(fmt::format("\nfound {} of {}, place right {} of {}, false alarms {}\n", found_,
                      faults.size(), right_, faults.size(), false_alarms_));
    if (writer_) writer_->close();
    const bool is_good = found_ == std::ssize(faults) && false_alarms_ == 0;
    return is_good ? exit_clean : exit_found;
  }

 private:
  void end_run() {
    if (progress_) progress_->end();
  }
  void clear_line() {
    if (progress_) progress_->clear();
  }

  /// A job that leaves a result, which is told of.
  template <class Result>
  void add(std::vector<Job>& jobs, std::function<Result()> run,
           std::function<void(const Result&)> tell) {
    const auto result = std::make_shared<Result>();
    jobs.push_back({[result, run] { *result = run(); },
                    [this, result, tell] {
                      end_run();
                      clear_line();
                      tell(*result);
                      std::fflush(stdout);
                    }});
  }

  void add_faults(const std::vector<const PlantedFault*>& faults, std::vector<Job>& jobs) {
    for (const PlantedFault* fault : faults)
      add<Detected>(
          jobs, [this, fault] { return detection_->examine(*fault); },
          [this](const Detected& d) {
            found_ += d.is_found() ? 1 : 0;
            right_ += d.is_place_right ? 1 : 0;
            false_alarms_ += d.false_alarms;
            tell(d, "planted_training_fault", d.fault->name);
          });
  }

  /// A further twin of each policy: nothing is wrong with it.
  void add_twins(const std::vector<const PlantedFault*>& faults, std::vector<Job>& jobs) {
    std::set<std::string_view> done;
    for (const PlantedFault* f : faults)
      if (done.insert(f->policy).second)
        add<Detected>(
            jobs, [this, f] { return detection_->examine_twin(*f); },
            [this](const Detected& d) {
              false_alarms_ += d.false_alarms + (d.fingerprint || d.audit || d.step_check ? 1 : 0);
              tell(d, "clean_twin", "none: another twin");
            });
  }

  void add_clean(std::vector<Job>& jobs) {
    std::vector<std::string> policies = options_.policies;
    if (policies.empty() && options_.faults.empty()) policies = train::own_policies();
    if (options_.clean_steps == 0) return;
    for (const std::string& policy : policies)
      add<CleanRun>(
          jobs,
          [this, policy] {
            return detection_->examine_clean(policy, clean_steps_of(policy, options_.clean_steps));
          },
          [this, is_first = policy == policies.front()](const CleanRun& c) {
            if (is_first) print("\nclean runs\n");
            tell(c);
          });
  }

  void tell(const Detected& d, const char* kind, std::string_view name) {
    print_line(d, name);
    if (writer_) writer_->write_line(line_of(d, kind));
  }
  void tell(const CleanRun& c) {
    print(fmt::format("{:<23}{} steps, {} alarms{}{}\n", c.policy, c.steps, c.alarms,
                      c.alarms > 0 ? ": " : "", c.first_alarm));
    false_alarms_ += c.alarms;
    if (writer_) writer_->write_line(line_of(c));
  }

  const Options& options_;
  const int workers_;
  ScratchFolder scratch_;
  std::optional<RecordWriter> writer_;
  std::optional<SharedProgress> progress_;
  std::optional<Detection> detection_;
  const InterruptNoted interrupt_;
  std::int64_t found_ = 0, right_ = 0, false_alarms_ = 0;
};

int list() {
  for (const PlantedFault& f : planted_faults())
    print(fmt::format("{:<24}{:<6}{}\n", f.name, f.policy, f.what));
  return exit_clean;
}

}  // namespace

void add_sentinel(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "sentinel", "Plant faults in a training run, and see what finds them and how soon");
  const auto o = std::make_shared<Options>();
  command->add_option("file", o->file, "The run, such as suites/training/nano.toml")
      ->type_name("FILE.toml");
  command->add_flag("--list", o->lists, "List the faults");
  command->add_option("--fault", o->faults, "These alone, and no clean runs but --policy")
      ->type_name("NAME");
  command->add_option("--policy", o->policies, "Of the clean runs; all of them if none is named")
      ->type_name("POLICY");
  const auto steps = CLI::Range(std::int64_t{0}, std::int64_t{1} << 30);
  command->add_option("--first-step", o->first, "Of the faults")
      ->check(steps)
      ->capture_default_str();
  command->add_option("--cap", o->cap, "Steps with a fault; later is not found")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--clean-steps", o->clean_steps,
                   "Of each clean run, a tenth with emulated matrix units; 0: none")
      ->check(steps)
      ->capture_default_str();
  command->add_option("--audit", o->audit_every, "Steps from one audit to the next")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command->add_option("--twins", o->twins, "How many each reference has, for the limits")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  command->add_option("--alpha", o->alpha, "Probability of a false alarm of a run's comparisons")
      ->type_name("SHARE")
      ->check(between(1e-9, 0.5))
      ->capture_default_str();
  command->add_option("--out", o->out, "Append the results to this file")->type_name("FILE.jsonl");
  command
      ->add_option("--workers", o->workers,
                   "Train so many runs at the same time; 0: one for each core. The records are the "
                   "same")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--quiet", o->is_quiet, "No progress");
  command->callback([o, &chosen] {
    chosen = [o] {
      if (o->lists) return list();
      if (o->file.empty())
        throw InputError("sentinel", "no run", "a file such as suites/training/nano.toml");
      return Sentry(*o).run();
    };
  });
}

}  // namespace opbound
