// opbound claims: the experiments behind a claim, and what follows from their figures.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "distributed/claims/ledger.hpp"
#include "distributed/claims/other_process.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "suites/folder.hpp"
#include "suites/suggest.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

using namespace claims;  // the command is of that alone

struct Options {
  std::vector<std::string> ids;
  std::string folder, out, records, device = "cpu";
  std::string trained;     ///< a variation to train, in a process that an experiment started
  std::int64_t steps = 1;  ///< of it
  bool markdown = false, lists = false, experiments = false, is_quiet = false;
};

std::vector<Claim> committed_claims(const std::string& folder) {
  if (!folder.empty()) return read_claims(suite_files(folder));
  const std::filesystem::path suites = suites_folder("claims");
  if (suites.empty())
    throw InputError("claims", "no suites/claims here, beside the program or above",
                     "--folder FOLDER of .toml files");
  return read_claims(suite_files((suites / "claims").string()));
}

/// Those that are named, in the ledger's order; all where none is.
std::vector<Claim> chosen_claims(const Options& o) {
  std::vector<Claim> all = committed_claims(o.folder);
  if (o.ids.empty()) return all;
  std::vector<std::string_view> known;
  for (const Claim& c : all) known.push_back(c.id);
  for (const std::string& id : o.ids)
    if (std::find(known.begin(), known.end(), id) == known.end())
      throw InputError("claims", "unknown claim " + detail::in_quotes_with_suggestion(id, known),
                       "an identifier that `opbound claims --list` prints");
  std::vector<Claim> chosen;
  for (const Claim& c : all)
    if (std::find(o.ids.begin(), o.ids.end(), c.id) != o.ids.end()) chosen.push_back(c);
  return chosen;
}

std::vector<ClaimRecord> examined(const Options& o) {
  const std::vector<Claim> all = chosen_claims(o);
  own_provider(o.device);  // refuses a name that is none
  std::optional<RecordWriter> writer;
  if (!o.out.empty()) writer.emplace(o.out);
  std::optional<Progress> progress;
  if (!o.is_quiet) progress.emplace(all.size(), "opbound claims");
  Laboratory laboratory;
  laboratory.device = o.device;
  laboratory.on_note = [&](const std::string& line) {
    if (progress) progress->advance(0, line);
  };
  std::vector<ClaimRecord> records;
  const InterruptNoted interrupt;
  for (const Claim& claim : all) {
    if (InterruptNoted::has_come()) break;
    if (progress) progress->advance(0, claim.id);
    records.push_back(examine(claim, laboratory));
    if (writer) writer->write_line(to_json(records.back()));
    if (progress) progress->advance(1, claim.id);
  }
  if (writer) writer->close();
  return records;
}

int list(const Options& o) {
  if (o.experiments) {
    Table table({{"experiment"}, {"what it does", false, 40}, {"parameters", false, 30}});
    for (const Experiment& e : all_experiments()) {
      Named<AttributeValue> parameters;
      for (const Parameter& p : e.parameters) parameters.emplace_back(p.name, p.left_out);
      table.add_row({{std::string(e.name)}, {std::string(e.what)}, {attributes_text(parameters)}});
    }
    print(table.terminal(Terminal::of(1)));
    return exit_clean;
  }
  Table table({{"id"}, {"claim", false, 40}});
  for (const Claim& c : chosen_claims(o)) table.add_row({{c.id}, {c.text}});
  print(table.terminal(Terminal::of(1)));
  return exit_clean;
}

int act(const Options& o) {
  if (!o.trained.empty()) {
    print(hash_of_training(o.trained, o.steps, o.device) + "\n");
    return exit_clean;
  }
  if (o.lists || o.experiments) return list(o);
  const std::vector<ClaimRecord> records =
      o.records.empty() ? examined(o) : read_claim_records(o.records);
  if (o.markdown)
    print(claims_page(records));
  else if (o.is_quiet)
    print(last_line(records) + "\n");
  else
    print(claims_table(records, Terminal::of(1)));
  return InterruptNoted::has_come() ? exit_interrupted : exit_clean;
}

}  // namespace

void add_claims(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "claims", "What an article claims of precision: experiments, figures, verdicts");
  const auto o = std::make_shared<Options>();
  command->add_option("id", o->ids, "Claims, such as C05; all without one")->type_name("ID");
  command->add_option("--folder", o->folder, "Another folder of claims than suites/claims")
      ->type_name("FOLDER");
  command->add_option("--out", o->out, "Append a record of each claim")->type_name("FILE.jsonl");
  CLI::Option* records =
      command->add_option("--records", o->records, "Run nothing: show the records of a file")
          ->type_name("FILE.jsonl");
  command->add_option("--device", o->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--markdown", o->markdown, "As a page of Markdown");
  command->add_flag("--list", o->lists, "The claims, and nothing is run")->excludes(records);
  command->add_flag("--experiments", o->experiments, "What a claim's file may run")
      ->excludes(records);
  command->add_option("--train", o->trained)->group("");  // for experiments, not for users
  command->add_option("--steps", o->steps)->group("");
  command->add_flag("--quiet", o->is_quiet, "Only the last line");
  command->callback([o, &chosen] { chosen = [o] { return act(*o); }; });
}

}  // namespace opbound
