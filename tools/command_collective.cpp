// opbound collective: collectives over ranks that are simulated or real, checked and told.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include "distributed/check.hpp"
#include "distributed/check_table.hpp"
#include "distributed/launch.hpp"
#include "distributed/revealed.hpp"
#include "distributed/scale_plot.hpp"
#include "distributed/simulated.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "tools/command_collective_case.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

constexpr std::int64_t most_probes = 100000;

const EngineKind& kind_named(const std::string& name) {
  std::vector<std::string_view> names;
  for (const EngineKind& k : engine_kinds()) names.push_back(k.name);
  return engine_kinds()[place_of(name, names, "--engine")];
}

/// What was asked for is not here, or does not start: one record, as `run` has it.
std::vector<Record> absent(Verdict verdict, const std::string& engine, const char* why) {
  Record r;
  r.op = name_of(Collective::all_reduce);
  r.provider = engine;
  r.verdict = verdict;
  r.reason = why;
  return {r};
}

/// The engine of a run, as --require asks for it: whether it is here, not what it runs.
class Asked final : public Provider {
 public:
  Asked(std::string engine, std::string device, std::string absence)
      : engine_(std::move(engine)), device_(std::move(device)), absence_(std::move(absence)) {}

  std::string name() const override { return engine_; }
  std::string version() const override { return {}; }
  std::string device() const override { return device_; }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  Contract contract(const Op&, std::vector<int>) const override { return {}; }
  std::string absence() const override { return absence_; }
  void run(const Op&, const Call&) const override {
    throw Unavailable("only its name is known here");
  }

 private:
  std::string engine_, device_, absence_;
};

/// Writes the records and prints `text`, the last line, and what --require lacks; the exit code.
int write_and_tell(const CollectiveOptions& options, const std::vector<Record>& records,
                   const std::string& text, std::unique_ptr<Provider> asked) {
  if (!options.out.empty()) {
    RecordWriter writer(options.out);
    for (const Record& r : records) writer.write(r);
    writer.close();
  }
  if (!options.quiet) print(text);
  return tell(records, true, options.required, asked->device(), {&asked, 1});
}

/// Processes that know nothing of one another would each be rank 0.
void require_all_ranks(const Engine& engine, const std::string& name) {
  const std::optional<Launched> rank = launched();
  if (name != "simulated" && rank && rank->size != engine.ranks())
    throw ProviderFailure(fmt::format("{} started {} ranks, of which {} knows {}", rank->by,
                                      rank->size, engine.traits().name, engine.ranks()));
}

/// Sums only: the order of a minimum changes no value, and partial sums that are stored elsewhere
/// than where they are added cannot be replayed.
std::string order_line(const CollectiveSpec& c, Engine& engine) {
  const auto a = from_bytes<all_reduce::Attributes>(c.spec.attributes);
  if (c.collective != Collective::all_reduce || a.reduction != all_reduce::Reduction::sum ||
      a.hop != all_reduce::Hop::compute || !refusal(schedule_of(c)).empty())
    return "";
  const RevealedOrder found = reveal_order(c, engine, most_probes);
  return fmt::format(
      "{} {}: {}\n", name_of(c.spec.precision),
      engine.traits().keeps_order ? std::string(name_of_order(c.order)) : engine.traits().name,
      to_string(found));
}

int collective_by(const CollectiveOptions& options, const std::string& name) {
  std::vector<Record> records;
  std::string orders, timing, device = "cpu", absence;
  std::unique_ptr<Engine> engine;
  bool has_failed = false;
  const std::optional<Launched> rank = launched();
  bool is_first = !rank || name == "simulated" || rank->rank == 0;
  try {
    engine = kind_named(name).make(options.ranks);
    device = engine->traits().device;
    is_first = engine->first_rank() == 0;
    require_all_ranks(*engine, name);
    const std::vector<CollectiveSpec> cases = cases_of(options, *engine);
    std::optional<Progress> progress;
    if (is_first) progress.emplace(cases.size(), "opbound collective");
    for (const CollectiveSpec& c : cases) {
      for (Record& r : check_collective(c, *engine)) records.push_back(std::move(r));
      if (options.reveals) orders += order_line(c, *engine);
      if (progress) progress->advance();
    }
    timing = engine->timing();
  } catch (const Unavailable& e) {
    absence = e.what();
    records = absent(Verdict::skipped, name, e.what());
  } catch (const ProviderFailure& e) {
    // what was judged before stays
    for (Record& r : absent(Verdict::failed, name, e.what())) records.push_back(std::move(r));
    has_failed = true;
    if (!is_first) std::fprintf(stderr, "opbound: rank %d: %s\n", rank->rank, e.what());
  }
  if (!is_first) return has_failed ? exit_found : exit_clean;  // rank 0 tells
  return write_and_tell(options, records, checks_table(records, Terminal::of(1)) + orders + timing,
                        std::make_unique<Asked>(name, device, absence));
}

// ---- against the number of ranks

/// The numbers of ranks at which equal gradients overflow, in one line for each order.
std::string overflow_text(const CollectiveOptions& options) {
  const std::int32_t most = std::min<std::int32_t>(options.ranks.ranks, 4096);
  std::string text =
      fmt::format("\nfp16: ranks at which equal gradients overflow, up to {}\n", most);
  for (const int order : orders_of(options)) {
    text += fmt::format("  {:<18}", name_of_order(order));
    for (const double gradient : options.overflow) {
      const CollectiveSpec c = spec_of(options, "fp16", Collective::all_reduce, order, 1);
      if (!c.spec.op->allows(c.spec.attributes, order)) continue;
      const auto first = first_overflow(c, gradient, most);
      text +=
          fmt::format("  {}: {:<6}", shortest(gradient), first ? std::to_string(*first) : "none");
    }
    text += "\n";
  }
  return text;
}

void write_page(const std::string& name, const std::string& page) {
  std::ofstream file(name);
  file << page;
  file.close();
  if (!file) throw InputError(name, "cannot be written", "a file in a folder that exists");
}

int collective_by_ranks(const CollectiveOptions& options) {
  std::vector<ScalePlots> plots;
  std::vector<Record> records;
  const std::vector<std::int32_t> counts = rank_counts(options.ranks.ranks);
  Progress progress(counts.size() * options.precisions.size(), "opbound collective");
  std::string text;
  for (const std::string& precision : options.precisions) {
    ScalePlots& of_precision = plots.emplace_back();
    of_precision.title = fmt::format("{}, {} elements, {}", precision, options.size, options.input);
    for (const std::int32_t ranks : counts) {
      for (const int order : orders_of(options)) {
        const auto scaled = scale(spec_of(options, precision, Collective::all_reduce, order, ranks),
                                  ranks, options.ranks.seed);
        if (!scaled) continue;
        of_precision.rows.push_back(scaled->row);
        records.push_back(scaled->record);
      }
      progress.advance();
    }
    text += of_precision.title + "\n" + scale_table(of_precision.rows, Terminal::of(1)) + "\n";
  }
  progress.clear();
  if (!options.plot.empty()) write_page(options.plot, scale_page(plots));
  return write_and_tell(options, records, text + overflow_text(options) + "\n",
                        std::make_unique<Asked>("simulated", "cpu", ""));
}

/// Is the balanced tree the one order that was asked for?
bool is_in_tree(const CollectiveOptions& options) {
  return options.orders == std::vector<std::string>{"balanced_tree"};
}

/// InputError for an option that would change nothing.
void require_effects(const CollectiveOptions& options, const std::string& name) {
  const bool is_simulated = name == "simulated";
  const std::optional<Launched> rank = launched();
  const bool has_gpus = name == "nccl" && (!rank || rank->size == 1);  // all ranks in this process
  struct Given {
    const char* option;
    bool is_given, has_effect;
    const char* expected;
  };
  const EngineOptions& given = options.ranks;
  const std::array<Given, 6> of_engines{{
      {"--by-ranks", options.by_ranks, is_simulated, "simulated, whose number of ranks is free"},
      {"--ranks", given.ranks > 0, is_simulated || has_gpus || (rank && rank->size == given.ranks),
       "simulated, or nccl in one process: a launcher says how many ranks there are else"},
      {"--order", !options.orders.empty(),
       is_simulated || name == "mpi" || name == "tcp" || (name == "nccl" && is_in_tree(options)),
       name == "nccl" ? "balanced_tree alone, or none: NCCL chooses its own"
                      : "simulated, mpi or tcp, which keep an order: a library chooses its own"},
      {"--lost", given.lost > 0, is_simulated, "simulated, whose messages can be lost"},
      {"--dead-rank", given.dead_rank >= 0, is_simulated, "simulated, whose ranks can die"},
      {"--unwaited", !given.unwaited.empty(), is_simulated || name == "nccl",
       "simulated or nccl, which have streams"},
  }};
  for (const auto& [option, is_given, has_effect, expected] : of_engines)
    if (is_given && !has_effect) throw InputError(option, "engine " + name, expected);
  if (!options.by_ranks) return;
  const bool has_others = std::ranges::any_of(options.collectives, [](const std::string& word) {
    return word != name_of(Collective::all_reduce);
  });
  const std::array<std::pair<const char*, bool>, 5> of_checks{
      {{"collective", has_others},
       {"--lost", given.lost > 0},
       {"--dead-rank", given.dead_rank >= 0},
       {"--unwaited", !given.unwaited.empty()},
       {"--reveal", options.reveals}}};
  for (const auto& [option, is_given] : of_checks)
    if (is_given)
      throw InputError("--by-ranks", std::string("given with ") + option,
                       "an all_reduce whose ranks all come, its error and its bound");
}

int collective(CollectiveOptions options) {
  const std::optional<Launched> rank = launched();
  const std::string name = !options.engine.empty()  ? options.engine
                           : !rank                  ? "simulated"
                           : rank->by == "torchrun" ? "tcp"
                                                    : "mpi";
  if (name == "simulated" && options.ranks.ranks == 0) options.ranks.ranks = 1024;
  options.ranks.is_in_tree = is_in_tree(options);
  try {
    kind_named(name);
    cases_of(options, SimulatedRanks(std::max(options.ranks.ranks,
                                              1)));  // what is wrong is wrong before a rank waits
    require_effects(options, name);
    if (name == "simulated" && options.ranks.dead_rank >= options.ranks.ranks)
      throw InputError("--dead-rank", std::to_string(options.ranks.dead_rank),
                       "a rank below --ranks, " + std::to_string(options.ranks.ranks));
    std::vector<std::string> tensors;
    for (const TensorRange& r : read_tensors_of(options.tensors, options.size))
      tensors.push_back(r.name);
    if (tensors.empty()) tensors.emplace_back("x");
    for (const std::string& t : options.ranks.unwaited) place_of(t, tensors, "--unwaited");
  } catch (const InputError&) {
    if (!rank || rank->rank == 0) throw;
    return exit_bad_use;  // rank 0 says what
  }
  if (name == "simulated" && rank && rank->rank > 0) return exit_clean;  // one simulation is enough
  return options.by_ranks ? collective_by_ranks(options) : collective_by(options, name);
}

/// "simulated: ranks of this process; mpi: ..."
std::string engine_words() {
  std::string text;
  for (const EngineKind& k : engine_kinds())
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", k.name, k.what);
  return text;
}

void add_simulation_options(CLI::App& command, CollectiveOptions& options) {
  command
      .add_option("--ranks", options.ranks.ranks,
                  "Simulated ranks, 1024 if not given; of nccl: GPUs of this process, all if not "
                  "given")
      ->check(CLI::Range(1, 1 << 20));
  CLI::Option* by_ranks =
      command.add_flag("--by-ranks", options.by_ranks,
                       "Error and bound against the number of ranks, from 2 to --ranks");
  command.add_option("--plot", options.plot, "Write the plots of --by-ranks to this file")
      ->type_name("FILE.html")
      ->needs(by_ranks);
  command
      .add_option("--overflow", options.overflow,
                  "Equal gradients whose fp16 sum's first overflow is looked for with --by-ranks")
      ->type_name("VALUE")
      ->allow_extra_args(false)
      ->needs(by_ranks);
  command
      .add_option("--lost", options.ranks.lost,
                  "Share of messages lost on their way and sent again")
      ->check(between(0, 0.99));
  CLI::Option* dead_rank =
      command.add_option("--dead-rank", options.ranks.dead_rank, "This rank dies")
          ->type_name("RANK")
          ->check(CLI::NonNegativeNumber);
  command.add_option("--dead-round", options.ranks.dead_round, "Before this round of its schedule")
      ->type_name("N")
      ->needs(dead_rank);
  command
      .add_option("--unwaited", options.ranks.unwaited,
                  "Tensors that are sent without waiting for the stream that writes them")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

}  // namespace

void add_collective(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "collective",
      "Check collectives over simulated ranks, or over real ones: of MPI, NCCL or TCP");
  const auto options = std::make_shared<CollectiveOptions>();
  command
      ->add_option("collective", options->collectives,
                   "all_reduce, reduce_scatter, all_gather, broadcast; all of them if none")
      ->type_name("NAME");
  command
      ->add_option(
          "--engine", options->engine,
          engine_words() + ". mpi under mpirun and srun, tcp under torchrun, else simulated")
      ->type_name("NAME");
  command->add_option("--order", options->orders, "ring, balanced_tree, ...; all of them if none")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--precision", options->precisions, "storage:compute:output")
      ->type_name("PRECISION")
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("--attribute", options->attributes,
                   "reduction=sum|mean|min|max, divides=after|before, hop=compute|output, group=8")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--size", options->size, "Elements of the message")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 28))
      ->capture_default_str();
  command->add_option("--input", options->input, "Each rank's elements")
      ->type_name("GENERATOR")
      ->capture_default_str();
  command->add_option("--seed", options->ranks.seed, "Of the elements, delays and losses")
      ->capture_default_str();
  command
      ->add_option("--tensor", options->tensors,
                   "A tensor in the message, in their order, so that it can be named")
      ->type_name("NAME=ELEMENTS")
      ->allow_extra_args(false);
  add_simulation_options(*command, *options);
  command
      ->add_option("--timeout", options->ranks.seconds,
                   "Give up real ranks where nothing comes for so long; MPI's own collectives wait")
      ->type_name("SECONDS")
      ->check(between(1e-3, 1e6))
      ->capture_default_str();
  command->add_flag("--reveal", options->reveals,
                    "Find the order in which an all-reduce adds its ranks, by probing it");
  command->add_option("--require", options->required, "Exit with 3 if this engine is missing")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "Append the records to this file")
      ->type_name("FILE.jsonl");
  command->add_flag("--quiet", options->quiet, "Print the last line only");
  command->callback([options, &chosen] { chosen = [options] { return collective(*options); }; });
}

}  // namespace opbound
