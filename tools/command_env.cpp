// opbound env: what decides numerics here, and what an article's settings do to them.
#include <CLI/CLI.hpp>

#include "distributed/claims/audit.hpp"
#include "reports/environment.hpp"
#include "reports/progress.hpp"
#include "reports/table.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::string device = "cpu";
  bool audits = false, json = false, is_quiet = false;
};

int tell_facts(const Options& o) {
  const auto facts = environment_facts(present_provider(o.device)->environment());
  if (o.json) {
    print(environment_json(facts) + "\n");
    return exit_clean;
  }
  Table table({{"topic"}, {"name", false, 20}, {"value", false, 30}});
  for (const EnvironmentFact& f : facts) table.add_row({{f.topic}, {f.name}, {f.value}});
  if (!o.is_quiet) print(table.terminal(Terminal::of(1)));
  print("fingerprint: " + environment_fingerprint(facts) + "\n");
  return exit_clean;
}

int tell_settings(const Options& o) {
  present_provider(o.device);  // refuses a name that is none, and what is not here
  const std::vector<claims::Setting> settings = claims::committed_settings();
  const claims::Tried tried = claims::by_processes(o.device);
  std::vector<claims::Audited> all;
  {
    Progress progress(settings.size(), "opbound env");
    for (const claims::Setting& s : settings) {
      all.push_back(claims::audit(s, tried));
      progress.advance(1, s.name);
    }
  }
  if (!o.json) {
    print(claims::audit_table(all, Terminal::of(1)));
    return exit_clean;
  }
  for (const claims::Audited& a : all) print(claims::audit_json(a) + "\n");
  return exit_clean;
}

}  // namespace

void add_env(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "env", "What decides numerics here: processor, modes, versions, variables");
  const auto o = std::make_shared<Options>();
  command->add_option("--device", o->device, "cpu, cuda or cuda:N")->capture_default_str();
  CLI::Option* audits = command->add_flag(
      "--audit", o->audits, "What settings and seeds that are said to harden a machine do here");
  command->add_flag("--json", o->json, "As JSON, one object a line");
  command->add_flag("--quiet", o->is_quiet, "Only the fingerprint")->excludes(audits);
  command->callback(
      [o, &chosen] { chosen = [o] { return o->audits ? tell_settings(*o) : tell_facts(*o); }; });
}

}  // namespace opbound
