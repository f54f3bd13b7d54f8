// opbound table: the error table of a file of records.
#include <CLI/CLI.hpp>
#include <array>

#include "distributed/train/report.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/table.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::string file;
  bool markdown = false, csv = false, all = false, overview = false;
};

/// A training log has no errors: every run in it is told as `opbound train` tells it.
int show_training(const Options& options) {
  const std::array<std::pair<const char*, bool>, 4> given{{{"--markdown", options.markdown},
                                                           {"--csv", options.csv},
                                                           {"--all", options.all},
                                                           {"--overview", options.overview}}};
  for (const auto& [option, is_given] : given)
    if (is_given)
      throw InputError(option, options.file + " is a training log", "records of checks");
  std::string text;
  for (const train::LoggedRun& run : train::read_training_log(options.file).runs)
    text += (text.empty() ? "" : "\n") + train::training_report(run);
  print(text);
  return exit_clean;
}

int show(const Options& options) {
  if (train::is_training_log(options.file)) return show_training(options);
  const std::vector<Record> records = read_records(options.file);
  if (records.empty())
    throw InputError(options.file, "no records", "a file that `opbound run` wrote");
  const TableStyle style = options.markdown ? TableStyle::markdown
                           : options.csv    ? TableStyle::csv
                                            : TableStyle::terminal;
  const TableOptions as{style, options.all, Terminal::of(1)};
  print(options.overview ? overview_table(records, as) : error_table(records, as));
  return exit_clean;
}

}  // namespace

void add_table(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "table", "The error table of a file of records; of a training log, its runs");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("file", options->file,
                   "Records, as `opbound run --out` writes them, or a training run's log")
      ->type_name("FILE.jsonl")
      ->required();
  CLI::Option* markdown = command->add_flag("--markdown", options->markdown, "As Markdown");
  command->add_flag("--csv", options->csv, "As comma-separated values, numbers in full")
      ->excludes(markdown);
  command->add_flag(
      "--all", options->all,
      "A row for every record, not for the worst of a group; of the overview, one for "
      "every part, direction, variant and attributes");
  command->add_flag("--overview", options->overview, "A row for each op and precision");
  command->callback([options, &chosen] { chosen = [options] { return show(*options); }; });
}

}  // namespace opbound
