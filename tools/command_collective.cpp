// opbound collective: collectives over ranks that are simulated or real, checked and told.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "distributed/alike.hpp"
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
#include "suites/input_file.hpp"
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
Record absent(Verdict verdict, const EngineKind& engine, const std::string& why) {
  Record r;
  r.op = name_of(Collective::all_reduce);
  r.provider = engine.name;
  r.verdict = verdict;
  r.reason = why;
  return r;
}

/// Tells, where it is asked to, of every name that is neither this engine nor its device, or that
/// is and is not here; true if there is any.
bool lacks(const CollectiveOptions& options, std::string_view engine, const std::string& device,
           const std::string& absence, bool tells) {
  bool lacks = false;
  for (const std::string& name : options.required) {
    const bool is_it = name == engine || name == device || device.starts_with(name + ":");
    if (is_it && absence.empty()) continue;
    lacks = true;
    if (tells)
      std::fprintf(stderr, "opbound: required %s is missing: %s\n", name.c_str(),
                   is_it ? absence.c_str() : "neither the engine of this run nor its device");
  }
  return lacks;
}

/// Records as they come: in --out's file at once, which is this run's from its start.
class Records {
 public:
  explicit Records(const std::string& out) {
    if (!out.empty()) writer_.emplace(out);
  }
  void take(Record r) {
    if (writer_) writer_->write(r);
    all_.push_back(std::move(r));
  }
  std::span<const Record> all() const { return all_; }

  /// Prints `text` and the last line; the exit code.
  int end(const CollectiveOptions& options, const std::string& text) {
    if (writer_) writer_->close();
    if (!options.quiet) print(text);
    return tell(all_, true);
  }

 private:
  std::optional<RecordWriter> writer_;
  std::vector<Record> all_;
};

/// Processes that know nothing of one another would each be rank 0; those that were told different
/// things would add what does not belong together.
void require_one_run(const EngineKind& kind, Engine& engine) {
  const std::optional<Launched> rank = launched();
  if (kind.is_simulated || !rank) return;
  if (rank->size != engine.ranks())
    throw ProviderFailure(fmt::format("{} started {} ranks, of which {} knows {}", rank->by,
                                      rank->size, engine.traits().name, engine.ranks()));
  if (const auto other =
          first_unlike(engine, words_of_program() + engine.traits().name + engine.traits().version +
                                   engine.traits().settings))
    throw InputError("rank " + std::to_string(*other),
                     "other words, settings or versions than rank 0 has",
                     "the same command on every rank");
}

/// Sums only: the order of a minimum changes no value, and partial sums that are stored elsewhere
/// than where they are added cannot be replayed.
std::string order_line(const CollectiveSpec& c, Engine& engine) {
  const auto a = from_bytes<all_reduce::Attributes>(c.spec.attributes);
  if (c.collective != Collective::all_reduce || a.reduction != all_reduce::Reduction::sum ||
      a.hop != all_reduce::Hop::compute || !refusal(schedule_of(c)).empty())
    return "";
  std::string found;
  try {
    found = to_string(reveal_order(c, engine, most_probes));
  } catch (const Unavailable& e) {  // in every process alike
    found = e.what();
  }
  return fmt::format(
      "{} {}: {}\n", name_of(c.spec.precision),
      engine.traits().keeps_order ? std::string(name_of_order(c.order)) : engine.traits().name,
      found);
}

/// Runs all cases; what the table does not hold is returned.
std::string run_cases(const CollectiveOptions& options, Engine& engine, Records* records) {
  const std::vector<CollectiveSpec> cases = cases_of(options, engine);
  std::optional<Progress> progress;
  if (records != nullptr) progress.emplace(cases.size(), "opbound collective");
  std::string orders;
  for (const CollectiveSpec& c : cases) {
    for (Record& r : check_collective(c, engine)) records->take(std::move(r));
    if (options.reveals) orders += order_line(c, engine);
    if (progress) progress->advance();
  }
  return orders + engine.timing();
}

/// `tells`: this process is rank 0, as far as its launcher knows.
int collective_by(const CollectiveOptions& options, const EngineKind& kind, bool tells) {
  std::unique_ptr<Engine> engine;  // lasts until all is told: other ranks end with it
  std::string absence, failure, text;
  try {
    engine = kind.make(options.ranks);
    tells = engine->first_rank() == 0;
  } catch (const Unavailable& e) {
    absence = e.what();
  } catch (const ProviderFailure& e) {
    failure = e.what();
  }
  const std::string device = engine ? engine->traits().device : "cpu";
  if (lacks(options, kind.name, device, absence, tells)) return exit_missing;
  std::optional<Records> records;
  try {
    if (engine) {
      require_one_run(kind, *engine);
      all_or_none(*engine, [&] {
        if (tells) records.emplace(options.out);
      });
      text = run_cases(options, *engine, records ? &*records : nullptr);
    }
  } catch (const ProviderFailure& e) {
    failure = e.what();  // what was judged before stays
  } catch (const InputError& e) {
    if (tells) std::fprintf(stderr, "opbound: %s\n", e.what());
    return exit_bad_use;
  }
  if (!tells) {  // rank 0 does
    if (!failure.empty())
      std::fprintf(stderr, "opbound: rank %d: %s\n", launched()->rank, failure.c_str());
    return failure.empty() ? exit_clean : exit_found;
  }
  if (!records) records.emplace(options.out);
  if (!absence.empty()) records->take(absent(Verdict::skipped, kind, absence));
  if (!failure.empty()) records->take(absent(Verdict::failed, kind, failure));
  return records->end(options, checks_table(records->all(), Terminal::of(1)) + text);
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

int collective_by_ranks(const CollectiveOptions& options) {
  if (lacks(options, "simulated", "cpu", "", true)) return exit_missing;
  std::vector<ScalePlots> plots;
  Records records(options.out);
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
        records.take(scaled->record);
      }
      progress.advance();
    }
    text += of_precision.title + "\n" + scale_table(of_precision.rows, Terminal::of(1)) + "\n";
  }
  progress.clear();
  if (!options.plot.empty()) {
    const std::string page = scale_page(plots);
    const auto bytes = std::as_bytes(std::span(page));
    write_atomically(options.plot, {&bytes, 1});
  }
  return records.end(options, text + overflow_text(options) + "\n");
}

/// The round before which a rank dies is one that it comes to, in every case: else a run that it
/// lives through would look as if the others had borne its death.
void require_death(const CollectiveOptions& options, const std::vector<CollectiveSpec>& cases) {
  const std::int32_t rank = options.ranks.dead_rank, round = options.ranks.dead_round;
  if (rank < 0) return;
  if (rank >= options.ranks.ranks)
    throw InputError("--dead-rank", std::to_string(rank),
                     "a rank below --ranks, " + std::to_string(options.ranks.ranks));
  for (const CollectiveSpec& c : cases) {
    if (!refusal(schedule_of(c)).empty()) continue;
    const std::vector<Move> moves = moves_of(schedule_of(c), options.size, rank);
    if (!moves.empty() && moves.back().round >= round) continue;
    const std::string what = fmt::format("{} by {}", name_of(c.collective), name_of_order(c.order));
    throw InputError("--dead-round", std::to_string(round),
                     moves.empty() ? fmt::format("a rank that takes part in {}", what)
                                   : fmt::format("at most {}, the last round of rank {} in {}",
                                                 moves.back().round, rank, what));
  }
}

/// What is wrong with the words is wrong before a rank waits for others.
void require_sense(const CollectiveOptions& options, const EngineKind& kind,
                   const std::optional<Launched>& rank) {
  const SimulatedRanks any(std::max(options.ranks.ranks, 1));
  const std::vector<CollectiveSpec> cases = cases_of(options, any);
  require_effects(options, kind, rank);
  require_death(options, cases);
  std::vector<std::string> tensors;
  for (const TensorRange& r : read_tensors_of(options.tensors, options.size))
    tensors.push_back(r.name);
  if (tensors.empty()) tensors.emplace_back("x");
  for (const std::string& t : options.ranks.unwaited) place_of(t, tensors, "--unwaited");
  const std::filesystem::path folder = std::filesystem::path(options.plot).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw InputError(options.plot, "cannot be written", "a file in a folder that exists");
}

int collective(CollectiveOptions options) {
  const std::optional<Launched> rank = launched();
  const bool is_first = !rank || rank->rank == 0;
  const std::string name =
      options.engine.empty() ? std::string(usual_engine(rank)) : options.engine;
  const EngineKind* kind = nullptr;
  try {
    kind = &kind_named(name);
    if (kind->is_simulated && options.ranks.ranks == 0) options.ranks.ranks = 1024;
    options.ranks.is_in_tree = is_in_tree(options);
    require_sense(options, *kind, rank);
  } catch (const InputError&) {
    if (is_first) throw;
    return exit_bad_use;  // rank 0 says what
  }
  if (kind->is_simulated && !is_first) return exit_clean;  // one simulation is enough
  return options.by_ranks ? collective_by_ranks(options) : collective_by(options, *kind, is_first);
}

}  // namespace

void add_collective(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "collective",
      "Check collectives over simulated ranks, or over real ones: of MPI, NCCL or TCP");
  const auto options = std::make_shared<CollectiveOptions>();
  add_collective_options(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { return collective(*options); }; });
}

}  // namespace opbound
