// opbound diff: two runs, check by check.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "reports/compare_table.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "suites/suggest.hpp"
#include "tools/command_history.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

constexpr std::string_view of_history = "history:";

struct Options {
  std::string before, after, store;
  Permission permission;
  bool markdown = false, csv = false, html = false, all = false, only_changed = false;
};

/// The records of a file, or of "history:RUN".
std::vector<Record> read_run(const std::string& word, const std::string& store_path) {
  namespace fs = std::filesystem;
  std::vector<Record> records;
  if (word.starts_with(of_history)) {
    RunStore store = existing_store(store_path);
    const std::string name = word.substr(of_history.size());
    require_run(store, name);
    return store.records(name);
  }
  std::error_code ignored;
  if (!fs::exists(word, ignored) && word.find_first_of("./") == std::string::npos)
    throw InputError("diff", "'" + word + "' is no file",
                     "a file of records, or a run of the history: history:" + word);
  records = read_records(word);
  if (records.empty()) throw InputError(word, "no records", "a file that `opbound run` wrote");
  return records;
}

/// A mistyped name would allow nothing, and nobody would know.
void require_known_names(const Comparison& comparison, const Permission& permission) {
  const std::vector<std::string> names = tellable_names(comparison);
  std::vector<std::string_view> known(names.begin(), names.end());
  const auto require = [&](const char* where, const std::string& name) {
    if (std::ranges::find(known, name) == known.end())
      throw InputError(where, "unknown " + detail::in_quotes_with_suggestion(name, known),
                       detail::one_of(known));
  };
  if (!permission.upgrade.empty()) require("--upgrade", permission.upgrade);
  known.emplace_back("all");
  for (const std::string& name : permission.allowed) require("--allow", name);
}

int diff(const Options& o) {
  const std::vector<Record> before = read_run(o.before, o.store),
                            after = read_run(o.after, o.store);
  Comparison comparison = compare(before, after);
  comparison.old_name = o.before + ", " + std::to_string(before.size()) + " records";
  comparison.new_name = o.after + ", " + std::to_string(after.size()) + " records";
  if (comparison.counts.compared() + comparison.counts[Change::skipped] == 0)
    throw InputError("diff", "the runs have no check in common",
                     "two runs of the same suites; `opbound table` shows what each of them has");
  require_known_names(comparison, o.permission);
  require_one_upgrade(comparison, o.permission);
  const TableStyle style = o.markdown ? TableStyle::markdown
                           : o.csv    ? TableStyle::csv
                                      : TableStyle::terminal;
  print(o.html ? compare_page(comparison)
               : compare_table(comparison, {{style, o.all, Terminal::of(1)}, o.only_changed}));
  return comparison.exit_code();
}

}  // namespace

void add_diff(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "diff",
      "What an upgrade changed: two runs, check by check; exit code 1 if a contract is "
      "broken or an error is larger");
  const auto o = std::make_shared<Options>();
  const char* run = "FILE.jsonl|history:RUN";
  command->add_option("old", o->before, "The run before: a file of records, or one of the history")
      ->type_name(run)
      ->required();
  command->add_option("new", o->after, "The run after it")->type_name(run)->required();
  command
      ->add_option("--upgrade", o->permission.upgrade,
                   "What was upgraded, such as cudnn; else the one thing that differs")
      ->type_name("NAME");
  command
      ->add_option("--allow", o->permission.allowed,
                   "What may differ beside it, such as driver,commit; all: everything")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_store(*command, o->store);
  CLI::Option* markdown = command->add_flag("--markdown", o->markdown, "As Markdown");
  CLI::Option* csv =
      command->add_flag("--csv", o->csv, "As comma-separated values, a row for every check");
  csv->excludes(markdown);
  command->add_flag("--html", o->html, "As a page with plots, in one file")
      ->excludes(markdown)
      ->excludes(csv);
  command->add_flag("--all", o->all,
                    "A row for every check, not for every op, direction and precision");
  command->add_flag("--changed", o->only_changed, "Only rows with a change");
  command->callback([o, &chosen] { chosen = [o] { return diff(*o); }; });
}

}  // namespace opbound
