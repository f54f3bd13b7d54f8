// opbound attribute: which calls of a training step made its error, and how much each.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "distributed/trace/attribution_record.hpp"
#include "distributed/trace/attribution_table.hpp"
#include "distributed/trace/logged_spec.hpp"
#include "distributed/trace/trace.hpp"
#include "distributed/train/log.hpp"
#include "ops/precision.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

using namespace trace;  // the command is of that alone

struct Options {
  std::string of, policy, data, device = "cpu", checkpoint, weights, out;
  std::vector<std::int64_t> steps;
  std::optional<std::int64_t> micro_batch, every;
  std::optional<std::size_t> run;
  std::vector<std::string> swaps;
  bool with_replay = true, is_json = false, is_quiet = false;
};

/// What is run again: from a training file, from a log, or from a trace.
struct Source {
  train::TrainingSpec spec;
  AgainOptions how;
};

Source from_file(const Options& o) {
  Source s;
  if (o.run) throw InputError("--run", "without effect", "the log of several runs");
  s.spec = train::read_training(o.of);
  if (!o.policy.empty()) s.spec.policy = train::read_policy(o.policy);
  if (!o.data.empty()) s.spec.data = o.data;
  train::require_valid(s.spec, o.policy.empty() ? o.of : "--policy");
  return s;
}

Source from_log(const Options& o) {
  if (!o.policy.empty())
    throw InputError("--policy", "a log has its policy", "a training file, or no --policy");
  const train::LoggedRuns logged = train::read_training_log(o.of);
  const std::size_t count = logged.runs.size();
  if (count == 0) throw InputError(o.of, "no run", "the log of one");
  if (count > 1 && !o.run)
    throw InputError(o.of, std::to_string(count) + " runs", "--run N, from 1: which of them");
  const std::size_t place = o.run.value_or(1);
  if (place < 1 || place > count)
    throw InputError("--run", std::to_string(place), "1 to " + std::to_string(count));
  const train::LoggedRun& run = logged.runs[place - 1];
  Source s;
  s.spec = logged_spec(run.first().spec, o.of);
  s.spec.file = run.first().file;
  if (!o.data.empty()) s.spec.data = o.data;
  s.how.log = o.of;
  s.how.logged = run.steps;
  s.how.data_sha256 = run.first().data_sha256;
  return s;
}

Source from_trace(const Options& o) {
  if (!o.policy.empty())
    throw InputError("--policy", "a trace has its policy", "a training file, or no --policy");
  if (o.run) throw InputError("--run", "without effect", "the log of several runs");
  TraceFile trace(o.of, TraceFile::Open::read);
  const TraceHead head = trace.head();
  if (head.spec.empty())
    throw InputError(o.of, "the trace of another program's run", "one of opbound train");
  for (const auto& [name, value] : head.environment)
    if (name == "twin")  // its first weights are moved, and nothing moves them here
      throw InputError(o.of, "the trace of a twin (--twin " + value + ")", "the run itself");
  const auto spec = nlohmann::ordered_json::parse(head.spec, nullptr, false);
  Source s;
  s.spec = logged_spec(spec, o.of);
  s.spec.file = o.of;
  if (!o.data.empty()) s.spec.data = o.data;
  s.how.log = o.of;
  s.how.data_sha256 = head.data_sha256;
  trace.for_each_step([&](const TraceStep& step) {
    train::StepResult result;
    result.step = step.step;
    result.loss = step.loss;
    s.how.logged.push_back(result);
    return true;
  });
  return s;
}

bool is_log(const std::string& name) { return name.ends_with(".jsonl"); }

/// A trace is told by its first bytes, whatever its name is.
bool is_trace(const std::string& name) {
  constexpr std::string_view begin = "SQLite format 3";
  std::string bytes(begin.size(), '\0');
  std::ifstream file(name, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes == begin;
}

Source source_of(const Options& o) {
  if (is_trace(o.of)) return from_trace(o);
  return is_log(o.of) ? from_log(o) : from_file(o);
}

/// A provider's name is found wrong before the run begins, not when the swap's turn comes.
Swap known_swap(const std::string& text, const std::string& device) {
  Swap swap = read_swap(text);
  if (swap.how == "own" || precision_named(swap.how)) return swap;
  try {
    named_plugin(swap.how, device);
  } catch (const InputError&) {
    std::error_code ignored;
    if (std::filesystem::exists(swap.how, ignored)) throw;  // it says what is wrong with the file
    throw InputError("--swap", "'" + swap.how + "'", "a precision or a provider");
  }
  return swap;
}

int attribute_as(const Options& o) {
  present_provider(o.device);  // refuses a name that is none, and what is not here
  Source source = source_of(o);
  AttributionRequest request;
  request.steps.insert(o.steps.begin(), o.steps.end());
  if (o.every)
    for (std::int64_t step = 0; step < source.spec.steps; step += *o.every)
      request.steps.insert(step);
  if (request.steps.empty())
    throw InputError("attribute", "no step", "--step STEP, or --every STEPS");
  request.micro_batch = o.micro_batch;
  request.with_replay = o.with_replay;
  request.most_bytes = machine_bytes();
  for (const std::string& text : o.swaps) request.swaps.push_back(known_swap(text, o.device));
  source.how.device = o.device;
  source.how.checkpoint = o.checkpoint;
  source.how.weights = o.weights;
  source.how.make_provider = [&](const std::string& name, const std::optional<PluginPlace>& place) {
    const bool is_told = std::any_of(request.swaps.begin(), request.swaps.end(),
                                     [&](const Swap& swap) { return swap.how == name; });
    return is_told ? named_plugin(name, o.device) : plugin_of_policy(name, o.device, place);
  };
  source.how.on_note = [](const std::string& line) {
    std::fprintf(stderr, "opbound: %s\n", line.c_str());
  };
  std::optional<RecordWriter> writer;
  if (!o.out.empty()) writer.emplace(o.out, "{\"schema\":1,\"kind\":\"attribution");
  AttributedRun run;
  {
    const auto steps = static_cast<std::uint64_t>(*request.steps.rbegin() + 1);
    std::optional<Progress> progress;
    if (!o.is_quiet) progress.emplace(steps, "opbound attribute");
    source.how.on_step = [&](const train::StepResult&) {
      if (progress) progress->advance();
    };
    try {
      run = attribute_run(source.spec, request, source.how);
    } catch (const Unavailable& e) {
      throw InputError("attribute", e.what());
    }
  }
  for (const std::string& line : attribution_lines(source.spec, run)) {
    if (writer) writer->write_line(line);
    if (o.is_json) print(line + "\n");
  }
  if (writer) writer->close();
  if (!o.is_json)
    print(o.is_quiet ? attribution_last_lines(run)
                     : attribution_table(source.spec, run, Terminal::of(1)));
  return exit_clean;
}

}  // namespace

void add_attribute(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "attribute", "Run a training again up to a step, and say which calls made that step's error");
  const auto o = std::make_shared<Options>();
  command
      ->add_option("of", o->of,
                   "The log or the trace of a run, whose losses have to come again bit for bit; or "
                   "a training file, such as suites/training/nano.toml")
      ->type_name("LOG.jsonl|TRACE|FILE.toml")
      ->required();
  command->add_option("--step", o->steps, "Steps, from 0")->type_name("STEP");
  command->add_option("--every", o->every, "Step 0 and every so many steps to the run's last")
      ->type_name("STEPS")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--micro-batch", o->micro_batch, "One of the step, from 0; else all of them")
      ->type_name("M");
  command->add_option("--policy", o->policy, "In place of the file's")->type_name("POLICY");
  command->add_option("--run", o->run, "Which run of the log, from 1")->type_name("N");
  command->add_option("--data", o->data, "The run's text, where it is elsewhere now")
      ->type_name("FILE");
  command
      ->add_option("--checkpoint", o->checkpoint,
                   "Folder of the run's checkpoints: begin with the last one before the first step")
      ->type_name("FOLDER");
  command->add_option("--weights", o->weights, "What the run began with, if not random ones")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--swap", o->swaps,
                   "And the step with one op in another precision or by another provider; without "
                   "= in fp64. It draws the rounding anew and does not add up")
      ->type_name("OP[=HOW]");
  command->add_flag("!--no-replay", o->with_replay,
                    "No replay: the loss alone, and no check of it");
  command->add_option("--device", o->device, "Where the run is run: cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  command->add_option("--out", o->out, "Append the records to this file")->type_name("FILE.jsonl");
  command->add_flag("--json", o->is_json, "Print the records, not tables");
  command->add_flag("--quiet", o->is_quiet, "Print one line for each step only");
  command->callback([o, &chosen] { chosen = [o] { return attribute_as(*o); }; });
}

}  // namespace opbound
