// opbound sweep: every bit pattern of elementwise ops' operands.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "reports/text.hpp"
#include "suites/foreign.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"
#include "suites/sweep.hpp"
#include "tools/command_case.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::vector<std::string> ops;
  ProviderOptions kernels;
  std::string folder, out, only;
  std::uint64_t every = 0;
  std::vector<std::string> required;
  bool all_attributes = false, quiet = false;
};

/// Elements of a sweep that is judged on the host where nothing else is asked for: seconds, not
/// hours.
constexpr std::uint64_t host_elements = std::uint64_t{1} << 18;

std::vector<CaseSpec> chosen_sweeps(const Options& options, const Provider& provider) {
  std::vector<CaseSpec> cases;
  for (const std::string& name : options.ops) read_op("sweep", name);
  for (const std::string& file : suite_files(options.folder)) {
    const Suite suite = read_suite(file);
    const bool is_wanted = options.ops.empty() || std::find(options.ops.begin(), options.ops.end(),
                                                            suite.op->name) != options.ops.end();
    if (!is_wanted) continue;
    for (const CaseSpec& spec : suite.cases) {
      cases.push_back(spec);
      cases.back().suite = file;  // as it is named here, so that `explain` finds it again
    }
  }
  std::vector<CaseSpec> sweeps = cases_for(provider, sweeps_of(cases, options.all_attributes));
  thin_out_unlisted(provider, sweeps);
  std::erase_if(sweeps, [&](const CaseSpec& c) {
    return (std::string(c.op->name) + " " + identity(c)).find(options.only) == std::string::npos;
  });
  return sweeps;
}

/// The records of a sweep; where its device is missing or fails, one that says so, as `run` has it.
std::vector<Record> records_of(const CaseSpec& spec, const Provider& provider, std::uint64_t every,
                               const SweepProgress& progress) {
  Record without_result = record_of(spec, provider);
  without_result.verdict = Verdict::skipped;
  without_result.reason = provider.absence();
  if (provider.variants(*spec.op, spec.direction, spec.attributes, spec.variant).empty() &&
      without_result.reason.empty())
    without_result.reason = provider.name() + " lists no such kernel";
  if (!without_result.reason.empty()) return {without_result};
  try {
    return run_sweep(spec, provider, every, progress);
  } catch (const Unavailable& e) {
    without_result.reason = e.what();
  } catch (const ProviderFailure& e) {
    without_result.verdict = Verdict::failed;
    without_result.reason = e.what();
  }
  return {without_result};
}

/// One sweep: whose kernel, and how many patterns of it.
struct Job {
  const Provider& provider;
  CaseSpec spec;
  std::uint64_t every;
};

std::vector<Job> jobs_of(const Providers& providers, const Options& options) {
  std::vector<Job> jobs;
  for (const auto& provider : providers)
    for (CaseSpec& c : chosen_sweeps(options, *provider)) {
      const auto all = static_cast<std::uint64_t>(sweep_size(c, 1));
      const bool is_judged_there = provider->is_on_device() && !provider->is_foreign();
      const std::uint64_t every = options.every > 0 ? options.every
                                  : is_judged_there
                                      ? 1
                                      : std::max<std::uint64_t>(1, all / host_elements);
      jobs.push_back({*provider, std::move(c), every});
    }
  if (jobs.empty() && !options.only.empty())
    throw InputError("--case", "no sweep's description contains '" + options.only + "'",
                     "a part of such as 'gelu forward fp32 approximate=none erfc'");
  if (jobs.empty())
    throw InputError("sweep", "nothing to sweep",
                     "an elementwise op with a case in fp32, or in 16 bits with fp32 inside");
  return jobs;
}

int sweep(const Options& options) {
  const Providers providers = named_providers(options.kernels);
  const std::vector<Job> jobs = jobs_of(providers, options);
  if (lacks_required(options.required, options.kernels.device, providers)) return exit_missing;
  std::uint64_t total = 0;
  for (const Job& j : jobs) total += static_cast<std::uint64_t>(sweep_size(j.spec, j.every));
  std::optional<RecordWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out);

  const InterruptNoted interrupt;
  std::vector<Record> records;
  Progress progress(total, "opbound sweep");
  for (const Job& j : jobs) {
    if (InterruptNoted::has_come()) break;
    const std::string what = std::string(j.spec.op->name) + " " + identity(j.spec);
    for (Record& r : records_of(j.spec, j.provider, j.every,
                                [&](std::uint64_t n) { progress.advance(n, what); })) {
      if (writer) writer->write(r);
      records.push_back(std::move(r));
    }
  }
  progress.clear();
  if (writer) writer->close();
  return tell(records, options.quiet);
}

}  // namespace

void add_sweep(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "sweep", "Judge elementwise kernels on every bit pattern of their operands");
  const auto options = std::make_shared<Options>();
  command->add_option("op", options->ops, "Ops; all that have elementwise outputs if none")
      ->type_name("OP");
  command
      ->add_option("--suites", options->folder,
                   "Folder of suites, whose cases say which variants and formats there are")
      ->type_name("FOLDER");
  options->kernels.add_to(*command);
  command
      ->add_option("--every", options->every,
                   "Take each N-th pattern only; where the cpu judges, about 2^18 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  command->add_option("--case", options->only, "Only sweeps whose description contains this")
      ->type_name("TEXT");
  command->add_flag("--all-attributes", options->all_attributes,
                    "Every set of attributes that the suites have, not the first alone");
  command
      ->add_option("--require", options->required,
                   "Exit with 3 if this provider or device is missing")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "Append the records to this file")
      ->type_name("FILE.jsonl");
  command->add_flag("--quiet", options->quiet, "Print the last line only");
  command->callback([options, &chosen] { chosen = [options] { return sweep(*options); }; });
}

}  // namespace opbound
