// opbound power: what finds which fault, opbound and the tolerance rules in use today.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "generated/version.hpp"
#include "ops/parallel.hpp"
#include "reports/error.hpp"
#include "reports/power.hpp"
#include "reports/progress.hpp"
#include "tests/detection/alarms.hpp"
#include "tests/detection/planted.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

constexpr std::size_t quick_step = 8;  // --quick takes each so many-th case
constexpr std::uint64_t nightly_elements = 1000000000;

struct Options {
  std::string records, out, tier = "quick";
  std::vector<std::string> ops;
  std::uint64_t elements = 0;
  bool quick = false, faults_only = false, markdown = false, svg = false, all = false;
};

bool is_wanted(const Options& o, std::string_view op) {
  return o.ops.empty() || std::ranges::find(o.ops, op) != o.ops.end();
}

std::int64_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

/// A row for each fault; on several threads, in the list's order.
std::vector<PowerRow> rows_of(const Options& o) {
  std::vector<detection::Planted> planted = detection::all_planted();
  std::erase_if(planted, [&](const auto& p) { return !is_wanted(o, p.op); });
  std::vector<PowerRow> rows(planted.size());
  const auto count = std::ssize(planted);
  Progress progress(static_cast<std::uint64_t>(count), "faults");
  std::mutex mutex;
  parallel_for(count, std::int64_t{1} << 20, [&](std::int64_t i) {
    if (InterruptNoted::has_come()) return;
    const auto place = static_cast<std::size_t>(i);
    rows[place] = detection::row_of(planted[place]);
    const std::lock_guard lock(mutex);
    progress.advance(1, planted[place].op);
  });
  progress.clear();
  std::erase_if(rows, [](const PowerRow& r) { return r.family.empty(); });
  return rows;
}

/// The suites' cases of this tier and those below it.
std::vector<CaseSpec> cases_of(const Options& o) {
  const Tier tier = o.tier == "full" ? Tier::full : Tier::quick;
  std::vector<CaseSpec> cases;
  for (const std::string& path : suite_files("")) {
    if (!is_wanted(o, std::filesystem::path(path).stem().string())) continue;
    for (CaseSpec& spec : read_suite(path).cases)
      if (spec.tier <= tier) cases.push_back(std::move(spec));
  }
  if (!o.quick) return cases;
  std::vector<CaseSpec> some;
  for (std::size_t i = 0; i < cases.size(); i += quick_step) some.push_back(std::move(cases[i]));
  return some;
}

void check_right_kernels(const Options& o, PowerTable& table) {
  const std::vector<CaseSpec> cases = cases_of(o);
  detection::AlarmOptions options;
  options.workers = cores();
  options.elements = o.elements > 0 ? o.elements : o.tier == "nightly" ? nightly_elements : 0;
  options.goes_on = [] { return !InterruptNoted::has_come(); };
  Progress progress(std::max<std::uint64_t>(options.elements, cases.size()), "right kernels");
  options.ended = [&](std::string_view op, std::uint64_t elements) {
    progress.advance(options.elements > 0 ? elements : 1, op);
  };
  const detection::Alarms alarms = detection::alarms_of(cases, options);
  progress.clear();
  table.alarms = alarms.counts;
  table.is_whole = table.is_whole && alarms.is_whole;
  table.cases = o.quick ? "one in " + std::to_string(quick_step) + " cases of the quick tier"
                        : (o.tier == "full" ? "full tier" : "quick tier");
  if (alarms.rounds > 1) table.cases += ", " + std::to_string(alarms.rounds) + " rounds of seeds";
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError(path, "cannot be written", "a file in a folder that can be");
}

PowerTable measured(const Options& o) {
  if (!o.out.empty()) write(o.out, "");  // before anything has run for nothing
  const InterruptNoted interrupt;
  PowerTable table;
  table.commit = commit;
  table.rows = rows_of(o);
  table.is_whole = !InterruptNoted::has_come();
  if (!o.faults_only && table.is_whole) check_right_kernels(o, table);
  if (!o.out.empty()) write(o.out, to_json_lines(table));
  return table;
}

void require_known_ops(const std::vector<std::string>& ops) {
  for (const std::string& op : ops)
    if (find_op(op) == nullptr)
      throw InputError("--op", "unknown operator '" + op + "'", "one that `opbound list` names");
}

int power(const Options& o) {
  require_known_ops(o.ops);
  const PowerTable table = o.records.empty() ? measured(o) : read_power(o.records);
  const TableOptions as{TableStyle::terminal, o.all, Terminal::of(1)};
  print(o.markdown ? power_page(table) : o.svg ? power_plot(table) : power_table(table, as));
  if (!table.is_whole) return exit_interrupted;
  return table.is_perfect() ? exit_clean : exit_found;
}

}  // namespace

void add_power(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "power",
      "What finds which planted fault and refuses which right kernel: opbound, and the tolerance "
      "rules of others; exit code 1 if opbound misses a fault or refuses what is right");
  const auto o = std::make_shared<Options>();
  CLI::Option* records =
      command
          ->add_option("--records", o->records,
                       "Run nothing: show the last table that --out wrote into this file")
          ->type_name("FILE.jsonl");
  command->add_option("--out", o->out, "Append the table to this file, as lines of JSON")
      ->type_name("FILE.jsonl")
      ->excludes(records);
  CLI::Option* tier = command
                          ->add_option("--tier", o->tier,
                                       "Right kernels: quick or full, the suites' cases; nightly, "
                                       "the quick ones again with other seeds, until 1e9 elements "
                                       "are checked")
                          ->check(CLI::IsMember({"quick", "full", "nightly"}))
                          ->capture_default_str()
                          ->excludes(records);
  command->add_option("--elements", o->elements, "Other seeds until so many elements are checked")
      ->type_name("N")
      ->excludes(records);
  command->add_flag("--quick", o->quick, "Every fault, but only each 8th case of right kernels")
      ->excludes(tier)
      ->excludes(records);
  command->add_flag("--faults", o->faults_only, "Faults only, no other right kernels")
      ->excludes(tier)
      ->excludes(records);
  command->add_option("--op", o->ops, "Only these operators, such as gelu,softmax")
      ->type_name("OP,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(records);
  command->add_flag("--all", o->all, "A row for every fault, not only for those that are missed");
  CLI::Option* markdown = command->add_flag("--markdown", o->markdown, "As a page in Markdown");
  command->add_flag("--svg", o->svg, "As a plot, an SVG of its own")->excludes(markdown);
  command->callback([o, &chosen] { chosen = [o] { return power(*o); }; });
}

}  // namespace opbound
