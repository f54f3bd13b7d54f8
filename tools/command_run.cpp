// opbound run: checks what suites say and prints the error table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "distributed/child.hpp"
#include "distributed/launch.hpp"
#include "distributed/shard.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "reports/table.hpp"
#include "suites/foreign.hpp"
#include "suites/rerun.hpp"
#include "suites/run_cases.hpp"
#include "suites/tensor_file.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

const std::vector<std::string> agreement_names{"none", "outputs", "all"};  // as in Agreement
const std::vector<std::string> tier_names{"quick", "full", "nightly"};     // in the order of Tier

struct Options {
  std::vector<std::string> suites;
  ProviderOptions kernels;
  std::string folder, out, only;
  std::vector<std::string> required;
  std::string tier = "quick";
  std::string agreement = "outputs";
  std::int64_t probes = 100000;
  int workers = 0;
  bool quiet = false, reveals = false, is_alone = false;
};

/// Ranks whose part of the run has not begun so much after rank 0 ended are lost.
constexpr double shard_seconds = 600;

/// Says of a word that names no file what to type instead; what is wrong with a path, its reader
/// says.
void require_file(const std::string& word) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string quoted = detail::in_quotes(word);
  if (fs::is_directory(word, ignored))
    throw InputError("run", quoted + " is a folder", "suite files, or --suites " + word);
  if (fs::exists(word, ignored) || word.find_first_of("./") != std::string::npos) return;
  const std::string suite = suite_file_named(word + ".toml");
  if (!suite.empty())
    throw InputError("run", quoted + " is no file", "its suite: opbound run " + suite);
  throw InputError("run", quoted + " is no file", "suite files, or --case " + word);
}

/// The cases of a tier and those below it.
std::vector<CaseSpec> read_cases(const Options& options) {
  const auto tier = static_cast<Tier>(
      std::find(tier_names.begin(), tier_names.end(), options.tier) - tier_names.begin());
  std::vector<CaseSpec> cases;
  for (const std::string& word : options.suites) require_file(word);
  for (const std::string& file :
       options.suites.empty() ? suite_files(options.folder) : options.suites)
    for (CaseSpec& spec : read_suite(file).cases) {
      if (spec.tier > tier) continue;
      spec.suite = file;  // as it is named here, so that `explain` finds it again
      cases.push_back(std::move(spec));
    }
  return cases;
}

/// Keeps the cases whose identity `only` is, or, where there is none, those whose identity or name
/// contains it.
void keep_named(std::vector<CaseSpec>& cases, const std::string& only) {
  const auto is_it = [&](const CaseSpec& c) { return identity(c) == only; };
  const auto contains_it = [&](const CaseSpec& c) {
    return (c.name + ": " + std::string(c.op->name) + " " + identity(c)).find(only) !=
           std::string::npos;
  };
  const bool is_exact = std::any_of(cases.begin(), cases.end(), is_it);
  std::erase_if(cases, [&](const CaseSpec& c) { return is_exact ? !is_it(c) : !contains_it(c); });
}

/// What one provider runs.
struct Job {
  const Provider& provider;
  std::vector<CaseSpec> cases;
};

std::vector<Job> jobs_of(const Providers& providers, const Options& options) {
  std::vector<Job> jobs;
  bool any = false;
  const std::vector<CaseSpec> cases = read_cases(options);
  for (const auto& provider : providers) {
    Job& job = jobs.emplace_back(Job{*provider, cases_for(*provider, cases)});
    if (!options.only.empty()) keep_named(job.cases, options.only);
    thin_out_unlisted(*provider, job.cases);
    any = any || !job.cases.empty();
  }
  if (!options.only.empty() && !any)
    throw InputError("--case", "no case of this tier contains '" + options.only + "'",
                     "part of a case's name or of what `opbound list cases` prints");
  return jobs;
}

std::size_t count_of(const std::vector<Job>& jobs) {
  std::size_t count = 0;
  for (const Job& job : jobs) count += job.cases.size();
  return count;
}

Agreement agreement_of(const Options& options) {
  return static_cast<Agreement>(
      std::find(agreement_names.begin(), agreement_names.end(), options.agreement) -
      agreement_names.begin());
}

/// `workers`: where the user names no number.
RunOptions run_options_of(const Options& options, unsigned workers) {
  return {agreement_of(options), options.reveals ? options.probes : 0,
          options.workers > 0 ? options.workers : static_cast<int>(std::max(1U, workers))};
}

/// Runs until the end or an interrupt; each record is kept as soon as it is there.
std::vector<Record> run_jobs(const std::vector<Job>& jobs, const RunOptions& options,
                             RecordWriter* writer) {
  std::vector<Record> records;
  Progress progress(count_of(jobs), "opbound run");
  for (const Job& job : jobs) {
    const auto begins = [&](std::size_t place) {
      const CaseSpec& spec = job.cases[place];
      progress.advance(0, std::string(spec.op->name) + " " + identity(spec));
      return !InterruptNoted::has_come();
    };
    const auto ended = [&](std::size_t, std::vector<Record> found) {
      for (Record& record : found) {
        if (writer != nullptr) writer->write(record);
        records.push_back(std::move(record));
      }
      progress.advance();
    };
    run_cases(job.cases, job.provider, options, {begins, ended});
  }
  return records;
}

/// The error table of one op; of several the overview, after the rows that make the run fail.
std::string tables_of(const std::vector<Record>& records) {
  const TableOptions as{TableStyle::terminal, false, Terminal::of(1)};
  const bool is_one = std::all_of(records.begin(), records.end(),
                                  [&](const Record& r) { return r.op == records.front().op; });
  if (is_one) return error_table(records, as);
  std::vector<Record> failing;
  for (const Record& r : records)
    if (summary_of({&r, 1}).exit_code() != exit_clean) failing.push_back(r);
  return (failing.empty() ? "" : error_table(failing, as) + "\n") + overview_table(records, as);
}

// ---- the same over ranks

/// The GPU of this rank on its machine, where the device is "cuda" and there are as many. Asked in
/// a child: plug-ins' processes have to be there before this one uses CUDA.
std::string device_of(const Options& options, const Launched& rank) {
  if (options.kernels.device != "cuda" || rank.local_rank == 0) return options.kernels.device;
  const std::string own = "cuda:" + std::to_string(rank.local_rank);
  const int lacks = in_child([&] { return own_provider(own)->absence().empty() ? 0 : 1; });
  return lacks == 0 ? own : options.kernels.device;
}

/// Runs every `ranks`-th case from the rank's on into its part file.
int run_part(const Options& options, const Launched& rank, const ShardName& name) {
  ProviderOptions kernels = options.kernels;
  const std::string device = kernels.device = device_of(options, rank);
  const Providers providers = named_providers(kernels);
  const std::vector<Job> jobs = jobs_of(providers, options);
  ShardWriter part(name);
  if (lacks_required(options.required, device, providers, rank.rank == 0)) {
    part.note("lacks");
    part.end();
    return exit_missing;
  }
  std::size_t place = 0;
  for (const Job& job : jobs)
    for (const CaseSpec& spec : job.cases)
      if (rank.rank == 0) part.announce(place++, record_of(spec, job.provider));
  const InterruptNoted interrupt;
  place = 0;
  for (const Job& job : jobs) {
    std::vector<CaseSpec> own;
    std::vector<std::size_t> places;
    for (const CaseSpec& spec : job.cases) {
      const std::size_t here = place++;
      if (here % static_cast<std::size_t>(rank.size) != static_cast<std::size_t>(rank.rank))
        continue;
      own.push_back(spec);
      places.push_back(here);
    }
    run_cases(own, job.provider, run_options_of(options, 1),
              {[](std::size_t) { return !InterruptNoted::has_come(); },
               [&](std::size_t k, const std::vector<Record>& records) {
                 part.write(places[k], records);
               }});
  }
  if (InterruptNoted::has_come()) part.note("interrupted");
  part.end();
  return exit_clean;
}

/// The same in a process of its own; what is wrong with the user's words, rank 0 says.
int run_part_apart(const Options& options, const Launched& rank, const ShardName& name) {
  return in_child([&] {
    try {
      return run_part(options, rank, name);
    } catch (const std::exception& e) {
      const bool is_input = dynamic_cast<const InputError*>(&e) != nullptr;
      if (rank.rank == 0 || !is_input) std::fprintf(stderr, "opbound: %s\n", e.what());
      return is_input ? static_cast<int>(exit_bad_use) : 1;
    }
  });
}

int run_over_ranks(const Options& options, const Launched& rank) {
  std::optional<RecordWriter> writer;  // this run's file before anybody begins
  if (rank.rank == 0 && !options.out.empty()) writer.emplace(options.out);
  const ShardMeeting meeting(shard_name(options.out, rank.rank, rank.size), words_of_program(),
                             shard_seconds);
  const ShardName& name = meeting.name();
  const InterruptNoted interrupt;
  const int code = run_part_apart(options, rank, name);
  if (rank.rank != 0) return exit_clean;  // rank 0 tells
  if (code == exit_bad_use) return code;
  const Merged merged = merge_shards(name, shard_seconds);
  for (const std::int32_t lost : merged.lost)
    std::fprintf(stderr, "opbound: rank %d of %d was lost\n", lost, rank.size);
  if (merged.records.empty() && !merged.lost.empty()) return exit_found;
  if (writer) {
    for (const Record& r : merged.records) writer->write(r);
    writer->close();
  }
  const auto lacking = merged.notes.find("lacks");
  const bool lacks = lacking != merged.notes.end();
  if (lacks && lacking->second > 0)  // rank 0 has said what it lacks itself
    std::fprintf(stderr, "opbound: what --require names is missing on rank %d\n", lacking->second);
  if (lacks && merged.records.empty()) return exit_missing;
  const Summary summary = summary_of(merged.records);
  print(options.quiet ? last_line(summary) + "\n" : tables_of(merged.records));
  if (merged.notes.contains("interrupted")) return exit_interrupted;
  return exit_code(summary.verdicts, summary.allowed_vacuous, lacks);
}

int run(const Options& options) {
  const std::optional<Launched> rank = launched();
  if (rank && rank->size > 1 && !options.is_alone) return run_over_ranks(options, *rank);
  const Providers providers = named_providers(options.kernels);
  const std::vector<Job> jobs = jobs_of(providers, options);
  if (lacks_required(options.required, options.kernels.device, providers)) return exit_missing;
  std::optional<RecordWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out);

  const InterruptNoted interrupt;
  const std::vector<Record> records =
      run_jobs(jobs, run_options_of(options, std::thread::hardware_concurrency()),
               writer ? &*writer : nullptr);
  if (writer) writer->close();
  const Summary summary = summary_of(records);
  print(options.quiet ? last_line(summary) + "\n" : tables_of(records));
  if (InterruptNoted::has_come()) {
    std::fprintf(stderr, "opbound: interrupted; some of %zu checks did not run\n", count_of(jobs));
    return exit_interrupted;
  }
  return summary.exit_code();
}

}  // namespace

void add_run(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand("run", "Check what suites say and print the table");
  const auto options = std::make_shared<Options>();
  command->add_option("suite", options->suites, "Suite files; all of the suites' folder if none")
      ->type_name("SUITE.toml");
  command
      ->add_option("--suites", options->folder,
                   "Folder of suites; else suites/ here, beside the program or above it")
      ->type_name("FOLDER");
  command->add_option("--out", options->out, "Append the records to this file")
      ->type_name("FILE.jsonl");
  command->add_option("--tier", options->tier, "quick; full: quick and full; nightly: all")
      ->type_name("TIER")
      ->check(CLI::IsMember(tier_names))
      ->capture_default_str();
  options->kernels.add_to(*command);
  command
      ->add_option("--agree", options->agreement,
                   "On a device, which of our bits are compared with the host's: none, outputs, or "
                   "all: bounds, references and statistics too")
      ->type_name("WHAT")
      ->check(CLI::IsMember(agreement_names))
      ->capture_default_str();
  command->add_option("--case", options->only, "Only cases whose name or description contains this")
      ->type_name("TEXT");
  command
      ->add_option("--require", options->required,
                   "Exit with 3 if this provider or device is missing")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_flag("--reveal", options->reveals,
                    "Look for the order in which another kernel adds, as `opbound reveal` does, "
                    "and bound that order");
  command->add_option("--probes", options->probes, "With so many runs of it for one case at most")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command
      ->add_option(
          "--workers", options->workers,
          "Run so many cases of our own kernels at the same time; 0: one for each core, or "
          "one in all where ranks share the run. The records are the same")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--alone", options->is_alone,
                    "Run every case here, although mpirun, srun or torchrun started several ranks");
  command->add_flag("--quiet", options->quiet, "Print the last line only");
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace opbound
