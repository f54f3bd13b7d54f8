// opbound sentinel: what finds a fault that is planted in a training run, how soon, and where it
// says the fault is.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "distributed/trace/detection.hpp"
#include "generated/version.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/scratch_folder.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using namespace trace;  // the command is of that alone

struct Options {
  std::string file, out;
  std::vector<std::string> faults, policies;
  std::int64_t first = 25, cap = 300, audit_every = 10, clean_steps = 100;
  int twins = 3;
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

class Sentry {
 public:
  /// Refuses what is wrong in the options before it opens a file or trains.
  explicit Sentry(const Options& o) : options_(o) {
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
    how.should_stop = [] { return InterruptNoted::has_come(); };
    if (!o.is_quiet)
      how.on_progress = [](const std::string& what) {
        if (isatty(STDERR_FILENO) != 0)
          std::fprintf(stderr, "\r\033[K%s", what.c_str());
        else
          std::fprintf(stderr, "opbound: %s\n", what.c_str());
      };
    detection_.emplace(std::move(how));
  }

  int run() {
    std::vector<const PlantedFault*> faults;
    for (const PlantedFault& f : planted_faults())
      if (options_.faults.empty() || std::find(options_.faults.begin(), options_.faults.end(),
                                               f.name) != options_.faults.end())
        faults.push_back(&f);
    print_head();
    for (const PlantedFault* fault : faults) {
      const Detected d = detection_->examine(*fault);
      if (InterruptNoted::has_come()) return exit_interrupted;
      tell(d, "planted_training_fault", fault->name);
      found_ += d.is_found() ? 1 : 0;
      right_ += d.is_place_right ? 1 : 0;
      false_alarms_ += d.false_alarms;
    }
    judge_twins(faults);
    judge_clean();
    if (InterruptNoted::has_come()) return exit_interrupted;
    print(fmt::format("\nfound {} of {}, place right {} of {}, false alarms {}\n", found_,
                      faults.size(), right_, faults.size(), false_alarms_));
    if (writer_) writer_->close();
    const bool is_good = found_ == std::ssize(faults) && false_alarms_ == 0;
    return is_good ? exit_clean : exit_found;
  }

 private:
  void tell(const Detected& d, const char* kind, std::string_view name) {
    clear_line();
    print_line(d, name);
    if (writer_) writer_->write_line(line_of(d, kind));
  }
  void clear_line() const {
    if (!options_.is_quiet && isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
  }

  /// A further twin of each policy: nothing is wrong with it.
  void judge_twins(const std::vector<const PlantedFault*>& faults) {
    std::vector<std::string_view> done;
    for (const PlantedFault* f : faults) {
      if (InterruptNoted::has_come()) return;
      if (std::find(done.begin(), done.end(), f->policy) != done.end()) continue;
      done.push_back(f->policy);
      Detected d = detection_->examine_twin(*f);
      false_alarms_ += d.false_alarms + (d.fingerprint || d.audit || d.step_check ? 1 : 0);
      tell(d, "clean_twin", "none: another twin");
    }
  }

  void judge_clean() {
    std::vector<std::string> policies = options_.policies;
    if (policies.empty() && options_.faults.empty()) policies = train::own_policies();
    if (!policies.empty() && options_.clean_steps > 0) print("\nclean runs\n");
    for (const std::string& policy : policies) {
      if (options_.clean_steps == 0 || InterruptNoted::has_come()) return;
      // A step of emulated matrix units takes as long as ten others.
      const bool is_slow = policy.starts_with("emulated") || policy == "tf32";
      const CleanRun c = detection_->examine_clean(
          policy, is_slow ? (options_.clean_steps + 9) / 10 : options_.clean_steps);
      clear_line();
      print(fmt::format("{:<23}{} steps, {} alarms{}{}\n", c.policy, c.steps, c.alarms,
                        c.alarms > 0 ? ": " : "", c.first_alarm));
      false_alarms_ += c.alarms;
      if (writer_)
        writer_->write_line(nlohmann::ordered_json{
            {"schema", 1},
            {"kind", "clean_training_run"},
            {"commit", commit},
            {"policy", c.policy},
            {"steps", c.steps},
            {"alarms", c.alarms},
            {"first_alarm",
             c.first_alarm}}.dump());
    }
  }

  const Options& options_;
  ScratchFolder scratch_;
  std::optional<RecordWriter> writer_;
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
  command->add_option("--twins", o->twins, "Of each reference, for the limits")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  command->add_option("--alpha", o->alpha, "Probability of a false alarm of a run's comparisons")
      ->check(CLI::Range(1e-9, 0.5))
      ->capture_default_str();
  command->add_option("--out", o->out, "Append the results to this file")->type_name("FILE.jsonl");
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
