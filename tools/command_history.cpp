// opbound history: runs kept in one SQLite file.
#include "tools/command_history.hpp"

#include <CLI/CLI.hpp>

#include "reports/error.hpp"
#include "reports/text.hpp"
#include "suites/suggest.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::string store, name, run;
  std::vector<std::string> files;
  bool accepted = false, names = false;
};

std::string store_of(const Options& options) {
  return options.store.empty() ? default_store() : options.store;
}

int add(const Options& options) {
  const std::string path = store_of(options);
  RunStore store(path, RunStore::Missing::made);
  print(store.add(options.files, options.name) + " is in " + path + "\n");
  return exit_clean;
}

int list(const Options& options) {
  RunStore store = existing_store(options.store);
  const std::vector<StoredRun> runs = options.accepted ? store.accepted() : store.runs();
  const Terminal as = Terminal::of(1);
  if (options.names) {
    for (const StoredRun& run : runs) print(run.name + "\n");
    return exit_clean;
  }
  Table table({{.title = "run"},
               {.title = "added (UTC)", .dispensable = 2},
               {.title = "accepted", .dispensable = 1},
               {.title = "records", .number = true},
               {.title = "within", .number = true},
               {.title = "vacuous", .number = true},
               {.title = "skipped", .number = true, .dispensable = 5},
               {.title = "undecided", .number = true},
               {.title = "exceeds", .number = true},
               {.title = "failed", .number = true},
               {.title = "elements", .number = true, .dispensable = 6},
               {.title = "provider", .dispensable = 4},
               {.title = "device", .dispensable = 3},
               {.title = "commit", .dispensable = 7}});
  for (const StoredRun& run : runs) {
    const auto count = [&](Verdict v, Colour colour) {
      const std::uint64_t n = run.summary.verdicts[v];
      return n == 0 ? Cell{} : Cell{std::to_string(n), colour};
    };
    table.add_row({{run.name},
                   {run.added},
                   {run.is_accepted ? "yes" : ""},
                   {std::to_string(run.records)},
                   count(Verdict::within, Colour::plain),
                   count(Verdict::vacuous, Colour::plain),
                   count(Verdict::skipped, Colour::plain),
                   count(Verdict::undecided, Colour::doubtful),
                   count(Verdict::exceeds, Colour::bad),
                   count(Verdict::failed, Colour::bad),
                   {legible(run.summary.checked)},
                   {run.providers},
                   {run.devices},
                   {run.commits}});
  }
  print((runs.empty() ? "" : table.terminal(as) + "\n") + std::to_string(runs.size()) +
        (options.accepted ? " accepted runs\n" : " runs\n"));
  return exit_clean;
}

int show(const Options& options) {
  RunStore store = existing_store(options.store);
  require_run(store, options.run);
  store.for_each_line(options.run, [](std::string_view text, long) {
    print(text);
    print("\n");
  });
  return exit_clean;
}

int accept(const Options& options) {
  RunStore store = existing_store(options.store);
  require_run(store, options.run);
  store.accept(options.run);
  return exit_clean;
}

CLI::Option* add_run_name(CLI::App& command, Options& options) {
  return command.add_option("run", options.run, "Its name, as `opbound history list` shows it")
      ->type_name("RUN")
      ->required();
}

}  // namespace

void add_store(CLI::App& command, std::string& store) {
  command
      .add_option("--store", store,
                  "The history; else $OPBOUND_HISTORY, else ~/.local/share/opbound/history.sqlite")
      ->type_name("FILE");
}

RunStore existing_store(const std::string& store) {
  return {store.empty() ? default_store() : store, RunStore::Missing::refused};
}

void require_run(RunStore& store, const std::string& name) {
  if (store.has(name)) return;
  const std::vector<StoredRun> runs = store.runs();
  std::vector<std::string_view> names;
  for (const StoredRun& run : runs) names.push_back(run.name);
  throw InputError("history", "unknown run " + detail::in_quotes_with_suggestion(name, names),
                   "a name that `opbound history list` shows");
}

void add_history(CLI::App& program, Action& chosen) {
  CLI::App* command =
      program.add_subcommand("history", "Keep runs, list them, give their records back");
  command->require_subcommand(1);
  const auto options = std::make_shared<Options>();
  const auto subcommand = [&](const char* name, const char* what, int (*action)(const Options&)) {
    CLI::App* sub = command->add_subcommand(name, what);
    add_store(*sub, options->store);
    sub->callback(
        [options, action, &chosen] { chosen = [options, action] { return action(*options); }; });
    return sub;
  };
  CLI::App* adding = subcommand("add", "Keep files of records as one run", add);
  adding->add_option("file", options->files, "Records, as `opbound run --out` writes them")
      ->type_name("FILE.jsonl")
      ->required();
  adding
      ->add_option("--name", options->name, "The run's name; else that of the first file, numbered")
      ->type_name("NAME");
  CLI::App* listing = subcommand("list", "All runs, the oldest first", list);
  listing->add_flag("--accepted", options->accepted,
                    "Only those that `accept` marked, the last one at the end");
  listing->add_flag("--names", options->names, "Names only, one in each line");
  CLI::App* showing = subcommand("show", "Print a run's records, line for line as added", show);
  add_run_name(*showing, *options);
  CLI::App* accepting =
      subcommand("accept", "Mark a run as good: later ones are to be compared with it", accept);
  add_run_name(*accepting, *options);
}

}  // namespace opbound
