// opbound train: a training run of what a file says, on one rank or on many.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "distributed/launch.hpp"
#include "distributed/train/report.hpp"
#include "distributed/train/trainer.hpp"
#include "generated/version.hpp"
#include "reports/error.hpp"
#include "reports/progress.hpp"
#include "suites/folder.hpp"
#include "suites/suggest.hpp"
#include "suites/tensor_file.hpp"
#include "tools/command_line.hpp"
#include "tools/command_train_audit.hpp"
#include "tools/command_train_evaluate.hpp"
#include "tools/command_train_observe.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using namespace train;  // the command is of that alone

const std::vector<std::string> shardings(sharding_names.begin(), sharding_names.end());

struct Options {
  std::string file, policy, data, device = "cpu", sharding, checkpoints, weights, save_weights, log,
                                  tensors;
  std::string evaluates;
  std::optional<std::int64_t> steps, micro_batches, sequences, checkpoint_every;
  std::optional<std::uint64_t> seed;
  bool resumes = false, has_report = true, is_quiet = false;
  ObserveOptions observe;
  AuditChoice audit;
};

/// What `read` returns; what is wrong is said to be the option's.
template <class F>
auto naming(const char* option, F read) {
  try {
    return read();
  } catch (const InputError& e) {
    throw InputError(option, e.what());
  }
}

/// Says of a word that names no file what to type instead.
void require_file(const std::string& word) {
  std::error_code ignored;
  if (fs::exists(word, ignored) || word.find_first_of("./") != std::string::npos) return;
  const fs::path name = fs::path("training") / (word + ".toml");
  const fs::path folder = suites_folder(name);
  throw InputError("train", detail::in_quotes(word) + " is no file",
                   folder.empty() ? "a file such as suites/training/nano.toml"
                                  : "opbound train " + (folder / name).string());
}

/// The file, changed as the flags say.
TrainingSpec spec_of(const Options& o) {
  require_file(o.file);
  own_provider(o.device);  // refuses a name that is none
  TrainingSpec spec = read_training(o.file);
  if (!o.policy.empty()) spec.policy = naming("--policy", [&] { return read_policy(o.policy); });
  if (!o.data.empty()) spec.data = o.data;
  spec.steps = o.steps.value_or(spec.steps);
  spec.micro_batches = o.micro_batches.value_or(spec.micro_batches);
  spec.sequences = o.sequences.value_or(spec.sequences);
  spec.seed = o.seed.value_or(spec.seed);
  if (!o.checkpoints.empty()) spec.checkpoint_folder = o.checkpoints;
  spec.checkpoint_every = o.checkpoint_every.value_or(spec.checkpoint_every);
  if (!o.sharding.empty()) {
    spec.sharding = static_cast<Sharding>(
        std::find(shardings.begin(), shardings.end(), o.sharding) - shardings.begin());
    if (spec.sharding != Sharding::fsdp) spec.gather = TrainingSpec{}.gather;
  }
  require_valid(spec, o.policy.empty() ? o.file : "--policy");
  for (const std::int64_t step : o.observe.bits_of)
    if (step >= spec.steps)
      throw InputError("--trace-bits", std::to_string(step),
                       "0 to " + std::to_string(spec.steps - 1));
  return spec;
}

/// Where an interrupted run leaves its checkpoint, and --resume looks for it, if nobody says.
fs::path default_folder(const TrainingSpec& spec) {
  return spec.file.stem().string() + ".checkpoints";
}

/// Rank 0 of a run tells of it: in a log, in a line of progress, in a report.
class Teller {
 public:
  Teller(const Options& options, const TrainingSpec& spec) : options_(options), spec_(spec) {
    if (const std::optional<Launched> own = launched()) is_telling_ = own->rank == 0;
  }

  void start(const RunFacts& facts) {
    is_telling_ = facts.rank == 0;
    if (!is_telling_) return;
    RunRecord run;
    run.file = spec_.file.string();
    run.commit = commit;
    run.device = facts.machine;
    run.ranks = facts.rank_count;
    run.transport = facts.ranks;
    run.parameters = facts.parameters;
    run.data = spec_.data;
    run.data_sha256 = facts.data_sha256;
    run.first_step = facts.first_step;
    run.spec = json_of(spec_);
    run.providers = {facts.providers.begin(), facts.providers.end()};
    run.environment = own_provider(options_.device)->environment();
    if (!options_.log.empty()) log_.emplace(options_.log).write(run);
    run_.parts = {std::move(run)};
    if (facts.first_step > 0 && !options_.is_quiet)
      note("goes on after step " + std::to_string(facts.first_step));
    if (!options_.is_quiet && isatty(STDERR_FILENO) == 0)
      note(spec_.model.name + ", policy " + spec_.policy.name + ", " +
           std::to_string(facts.rank_count) + (facts.rank_count == 1 ? " rank on " : " ranks on ") +
           facts.machine + ": the report comes at the end, --log has each step as it is done");
    if (!options_.is_quiet)
      progress_.emplace(
          static_cast<std::uint64_t>(spec_.steps - std::min(spec_.steps, facts.first_step)),
          "opbound train");
  }

  void take(const StepResult& step) {
    if (!is_telling_) return;
    if (log_) log_->write(step);
    run_.steps.push_back(step);
    time_ms_ += step.time_ms;
    if (progress_) progress_->advance(1, progress_text(step));
  }

  /// The run goes on from an earlier step: in the log a part of its own, as after a resume.
  void go_back(std::int64_t steps_done) {
    if (!is_telling_) return;
    RunRecord part = run_.parts.back();
    part.first_step = steps_done;
    if (log_) log_->write(part);
    run_.steps.resize(
        static_cast<std::size_t>(std::max<std::int64_t>(0, steps_done - run_.first().first_step)));
    run_.parts.push_back(std::move(part));
  }

  void note(const std::string& line) {
    if (!is_telling_) return;
    if (progress_) progress_->clear();
    std::fprintf(stderr, "opbound: %s\n", line.c_str());
  }

  void end(const TrainResult& result) {
    progress_.reset();
    if (!is_telling_) return;
    close({result.is_interrupted ? RunEnd::interrupted : RunEnd::finished, "", result, time_ms_});
    if (!options_.is_quiet && options_.has_report) print(training_report(run_));
    print("hash: " + text_of_hash(result.hash) + "\n");
  }

  void fail(const std::string& reason) {
    progress_.reset();
    if (is_telling_ && !run_.parts.empty()) close({RunEnd::failed, reason, {}, time_ms_});
  }

 private:
  void close(ResultRecord result) {
    if (log_) {
      log_->write(result);
      log_->close();
    }
    run_.result = std::move(result);
  }

  const Options& options_;
  const TrainingSpec& spec_;
  std::optional<TrainingLog> log_;
  std::optional<Progress> progress_;
  LoggedRun run_;
  double time_ms_ = 0;
  bool is_telling_ = true;  ///< rank 0 tells, also what comes before the start
};

/// The folder, or the first of FOLDER-2, FOLDER-3, ... that holds no other run's checkpoints: only
/// an interrupt would write there.
fs::path free_folder(const fs::path& folder) {
  fs::path free = folder;
  std::error_code ignored;
  for (int i = 2; fs::exists(free, ignored) && !fs::is_empty(free, ignored); ++i)
    free = folder.string() + "-" + std::to_string(i);
  return free;
}

/// `who`: what the messages of a rank that does not tell begin with.
int run(const Options& options, const TrainingSpec& spec, const std::string& who) {
  TrainOptions how;
  Teller teller(options, spec);
  how.device = options.device;
  how.checkpoint_folder = spec.checkpoint_folder;
  how.interrupt_folder = free_folder(default_folder(spec));
  if (options.resumes && how.checkpoint_folder.empty())
    how.checkpoint_folder = default_folder(spec);
  how.resume = options.resumes;
  how.weights = options.weights;
  how.save_weights = options.save_weights;
  how.tensors = options.tensors;
  how.make_provider = [&](const std::string& name, const std::optional<PluginPlace>& place) {
    return plugin_of_policy(name, options.device, place);
  };
  how.on_start = [&](const RunFacts& facts) { teller.start(facts); };
  how.on_step = [&](const StepResult& step) { teller.take(step); };
  how.on_note = [&](const std::string& line) { teller.note(line); };
  how.should_stop = [] { return InterruptNoted::has_come(); };
  how.on_back = [&](std::int64_t steps) { teller.go_back(steps); };
  std::optional<TrainAudit> audit;
  // An alarm asks for an audit of the step that follows.
  if (options.audit.every > 0 || options.observe.watches())
    audit.emplace(options.audit, options.device);
  Observers observers(options.observe, options.device, audit ? &audit->observer() : nullptr,
                      how.on_note);
  observers.attach(how);
  const auto ended = [&](int code) {
    const bool is_quiet = options.is_quiet || options.audit.every == 0;
    return observers.end(audit ? audit->end(code, is_quiet) : code, options.is_quiet);
  };
  const InterruptNoted interrupt;
  try {
    const TrainResult result = train::train(spec, how);
    teller.end(result);
    if (!result.is_interrupted) return ended(exit_clean);
    const fs::path folder =
        how.checkpoint_folder.empty() ? how.interrupt_folder : how.checkpoint_folder;
    const bool is_named = folder != default_folder(spec);
    teller.note("interrupted after step " + std::to_string(result.steps) + "; " +
                (is_named ? "--checkpoint " + folder.string() + " --resume goes on from it"
                          : "--resume goes on from " + folder.string()));
    return ended(exit_interrupted);
  } catch (const InputError& e) {
    teller.fail(e.what());
    throw InputError(who, e.what());
  } catch (const Unavailable& e) {
    teller.fail(e.what());
    throw InputError(who, e.what());
  } catch (const ProviderFailure& e) {
    teller.fail(e.what());
    std::fprintf(stderr, "opbound: %s%s%s\n", who.c_str(), who.empty() ? "" : ": ", e.what());
    return ended(exit_found);
  }
}

/// One machine of several may lack the device, so that every rank says so of its own.
void require_device(const std::string& device, const std::string& who) {
  try {
    present_provider(device);
  } catch (const InputError& e) {
    throw InputError(who, e.what());
  }
}

int train_as(const Options& options) {
  const std::optional<Launched> rank = launched();
  const std::string who =
      rank && rank->rank > 0 ? "rank " + std::to_string(rank->rank) : std::string();
  std::optional<TrainingSpec> spec;
  try {
    spec = spec_of(options);
  } catch (const InputError&) {
    if (!rank || rank->rank == 0) throw;
    return exit_bad_use;  // rank 0 says what
  }
  require_device(options.device, who);
  if (!options.evaluates.empty()) {
    if (rank && rank->rank > 0) return exit_clean;  // one evaluation is enough
    const fs::path weights =
        options.weights.empty() ? spec->checkpoint_folder : fs::path(options.weights);
    return evaluate_against(*spec, {options.evaluates, weights, options.device, options.is_quiet});
  }
  return run(options, *spec, who);
}

/// Ready policies, in a line of help.
std::string policy_words() {
  const std::vector<std::string> names = ready_policies();
  const std::vector<std::string_view> known(names.begin(), names.end());
  return known.empty() ? "A policy's file" : detail::one_of(known) + ", or a policy's file";
}

void add_what(CLI::App& command, Options& o) {
  const auto at_least_one = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  const auto few = CLI::Range(std::int64_t{1}, std::int64_t{1} << 20);
  command.add_option("file", o.file, "What to train, such as suites/training/nano.toml")
      ->type_name("FILE.toml")
      ->required();
  command.add_option("--policy", o.policy, policy_words())->type_name("POLICY");
  command.add_option("--steps", o.steps, "In place of the file's")->check(at_least_one);
  command.add_option("--seed", o.seed, "Of initial weights, samples and dropout")
      ->check(seed_number());
  command.add_option("--data", o.data, "A text; auto: the project's own")->type_name("FILE");
  command.add_option("--micro-batches", o.micro_batches, "Of a step, over all ranks")->check(few);
  command.add_option("--sequences", o.sequences, "Of a micro-batch")->check(few);
  command.add_option("--sharding", o.sharding, "dp, fsdp, zero3-fp32 or zero3-offload")
      ->type_name("HOW")
      ->check(CLI::IsMember(shardings));
}

}  // namespace

void add_train(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "train", "Train a model as a file says; under mpirun, srun or torchrun on all ranks");
  const auto options = std::make_shared<Options>();
  add_what(*command, *options);
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  command
      ->add_option("--checkpoint", options->checkpoints,
                   "Folder of checkpoints, written at the end and by --checkpoint-every; without "
                   "one, only an interrupted run leaves one, in NAME.checkpoints here, or in "
                   "NAME.checkpoints-2 where that is another run's")
      ->type_name("FOLDER");
  command
      ->add_option("--checkpoint-every", options->checkpoint_every, "Write one after so many steps")
      ->type_name("STEPS")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_flag("--resume", options->resumes, "Go on from the last good checkpoint");
  command
      ->add_option("--weights", options->weights,
                   "Begin with these weights, under GPT-2's names, instead of random ones")
      ->type_name("FILE.safetensors");
  command->add_option("--save-weights", options->save_weights, "Where the final ones go")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--tensors", options->tensors,
                   "Every step's weights, gradients and tokens, a file each, go there")
      ->type_name("FOLDER");
  command->add_option("--log", options->log, "Append a line for every step to this file")
      ->type_name("FILE.jsonl");
  CLI::Option* evaluate = command->add_option(
      "--evaluate", options->evaluates,
      "Train nothing: compare the model of --weights or --checkpoint with itself under "
      "this policy, or with these weights or checkpoints, on 100 prompts");
  evaluate->type_name("POLICY|FILE.safetensors|FOLDER");
  add_observe_options(*command, options->observe);
  add_audit_options(*command, options->audit);
  for (const char* of_training :
       {"--resume", "--save-weights", "--tensors", "--log", "--checkpoint-every", "--trace",
        "--trace-prompts", "--twin", "--sentinel", "--against", "--audit"})
    evaluate->excludes(command->get_option(of_training));
  command->add_flag("!--no-report", options->has_report, "Print no report of the run");
  command->add_flag("--quiet", options->is_quiet, "Print the hash of the final weights only");
  command->callback([options, &chosen] { chosen = [options] { return train_as(*options); }; });
}

}  // namespace opbound
