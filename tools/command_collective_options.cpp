// The words of `opbound collective`, and which of them an engine has a use for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "tools/command_collective_case.hpp"
#include "tools/command_line.hpp"

namespace opbound {
namespace {

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
          ->check(CLI::Range(0, 1 << 30));
  command.add_option("--dead-round", options.ranks.dead_round, "Before this round of its schedule")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 30))
      ->needs(dead_rank);
  command
      .add_option("--unwaited", options.ranks.unwaited,
                  "Tensors that are sent without waiting for the stream that writes them")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

}  // namespace

bool is_in_tree(const CollectiveOptions& options) {
  return options.orders == std::vector<std::string>{"balanced_tree"};
}

void require_effects(const CollectiveOptions& options, const EngineKind& engine,
                     const std::optional<Launched>& rank) {
  struct Given {
    const char* option;
    bool is_given, has_effect;
    const char* expected;
  };
  const EngineOptions& given = options.ranks;
  const bool is_alone = !rank || rank->size == 1;
  const bool has_ranks = engine.is_simulated || (engine.has_ranks_of_own && is_alone) ||
                         (rank && rank->size == given.ranks);
  const bool has_order =
      engine.orders == Orders::all || (engine.orders == Orders::tree && is_in_tree(options));
  const std::array<Given, 6> of_engines{{
      {"--by-ranks", options.by_ranks, engine.is_simulated,
       "simulated, whose number of ranks is free"},
      {"--ranks", given.ranks > 0, has_ranks,
       "simulated, or nccl in one process: a launcher says how many ranks there are else"},
      {"--order", !options.orders.empty(), has_order,
       engine.orders == Orders::tree
           ? "balanced_tree alone, or none: NCCL chooses its own"
           : "simulated, mpi or tcp, which keep an order: a library chooses its own"},
      {"--lost", given.lost > 0, engine.is_simulated, "simulated, whose messages can be lost"},
      {"--dead-rank", given.dead_rank >= 0, engine.is_simulated, "simulated, whose ranks can die"},
      {"--unwaited", !given.unwaited.empty(), engine.has_streams,
       "simulated or nccl, which have streams"},
  }};
  for (const auto& [option, is_given, has_effect, expected] : of_engines)
    if (is_given && !has_effect)
      throw InputError(option, "engine " + std::string(engine.name), expected);
  if (options.reveals && given.dead_rank >= 0)
    throw InputError("--reveal", "given with --dead-rank", "ranks that all come");
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

void add_collective_options(CLI::App& command, CollectiveOptions& options) {
  command
      .add_option("collective", options.collectives,
                  "all_reduce, reduce_scatter, all_gather, broadcast; all of them if none")
      ->type_name("NAME");
  command
      .add_option(
          "--engine", options.engine,
          engine_words() + ". mpi under mpirun and srun, tcp under torchrun, else simulated")
      ->type_name("NAME");
  command.add_option("--order", options.orders, "ring, balanced_tree, ...; all of them if none")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--precision", options.precisions, "storage:compute:output")
      ->type_name("PRECISION")
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      .add_option("--attribute", options.attributes,
                  "reduction=sum|mean|min|max, divides=after|before, hop=compute|output, group=8")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command.add_option("--size", options.size, "Elements of the message")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 28))
      ->capture_default_str();
  command.add_option("--input", options.input, "Each rank's elements")
      ->type_name("GENERATOR")
      ->capture_default_str();
  command.add_option("--seed", options.ranks.seed, "Of the elements, delays and losses")
      ->check(seed_number())
      ->capture_default_str();
  command
      .add_option("--tensor", options.tensors,
                  "A tensor in the message, in their order, so that it can be named")
      ->type_name("NAME=ELEMENTS")
      ->allow_extra_args(false);
  add_simulation_options(command, options);
  command
      .add_option("--timeout", options.ranks.seconds,
                  "Give up real ranks where nothing comes for so long; MPI's own collectives wait")
      ->type_name("SECONDS")
      ->check(between(1e-3, 1e6))
      ->capture_default_str();
  command.add_flag("--reveal", options.reveals,
                   "Find the order in which an all-reduce adds its ranks, by probing it");
  command.add_option("--require", options.required, "Exit with 3 if this engine is missing")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--out", options.out, "Append the records to this file")
      ->type_name("FILE.jsonl");
  command.add_flag("--quiet", options.quiet, "Print the last line only");
}

}  // namespace opbound
