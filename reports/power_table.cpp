// Detection tables for a terminal and as a page in Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/power.hpp"
#include "reports/rivals.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

using detail::RuleTotals;

std::string share(std::uint64_t flagged, std::uint64_t cases) {
  return cases == 0 ? "" : fmt::format("{} of {}", flagged, cases);
}

Table summary_of_rules(const PowerTable& table) {
  Table t({{.title = "rule"},
           {.title = "caught", .number = true},
           {.title = "both", .number = true},
           {.title = "missed", .number = true},
           {.title = "n/a", .number = true},
           {.title = "right kernels refused: ordinary inputs", .number = true, .least_width = 9},
           {.title = "hard inputs", .number = true, .least_width = 6},
           {.title = "other algorithm", .number = true, .least_width = 9, .dispensable = 1}});
  for (const RuleTotals& r : detail::totals_of(table))
    t.add_row({{r.rule},
               {std::to_string(r[Detection::caught])},
               {std::to_string(r[Detection::both])},
               {std::to_string(r[Detection::missed])},
               {std::to_string(r[Detection::not_for])},
               {share(r.flagged[0], r.cases[0])},
               {share(r.flagged[1], r.cases[1])},
               {share(r.flagged[2], r.cases[2])}});
  return t;
}

Colour colour_of(Detection d) {
  switch (d) {
    case Detection::caught:
      return Colour::good;
    case Detection::missed:
      return Colour::bad;
    case Detection::both:
      return Colour::doubtful;
    default:
      return Colour::plain;
  }
}

/// A rule's word on a row; nothing where the rule does not apply.
Cell cell_of(Detection d, bool is_markdown) {
  if (d == Detection::not_for) return {""};
  const std::string word(name_of(d));
  return {d == Detection::missed && is_markdown ? "**" + word + "**" : word, colour_of(d)};
}

std::vector<std::string> rules_of(const std::vector<PowerRow>& rows) {
  std::vector<std::string> names;
  for (const PowerRow& row : rows)
    for (const RuleResult& r : row.rules)
      if (std::ranges::find(names, r.rule) == names.end()) names.push_back(r.rule);
  return names;
}

/// A row for every fault.
Table every_fault(const std::vector<PowerRow>& rows, bool is_markdown) {
  std::vector<Column> columns{{.title = "op"},
                              {.title = "fault", .least_width = 12},
                              {.title = "direction", .dispensable = 3},
                              {.title = "precision", .dispensable = 2},
                              {.title = "found by", .dispensable = 4},
                              {.title = "ratio", .number = true, .dispensable = 5},
                              {.title = std::string(own_rule)}};
  const std::vector<std::string> names = rules_of(rows);
  for (const std::string& name : names) columns.push_back({.title = name, .dispensable = 1});
  Table t(std::move(columns));
  for (const PowerRow& row : rows) {
    std::vector<Cell> cells{{row.op},
                            {is_markdown ? row.name + ": " + row.what : row.name},
                            {row.direction},
                            {row.precision},
                            {row.found_by},
                            {row.ratio ? legible(*row.ratio) : ""},
                            cell_of(row.detection, is_markdown)};
    for (const std::string& name : names) {
      const auto r = std::ranges::find(row.rules, name, &RuleResult::rule);
      cells.push_back(
          cell_of(r == row.rules.end() ? Detection::not_for : r->detection, is_markdown));
    }
    t.add_row(std::move(cells));
  }
  return t;
}

/// Right kernels with ordinary inputs by op: cases that each rule refuses.
Table alarms_by_op(const PowerTable& table) {
  std::vector<std::string> rules;
  std::map<std::string, std::map<std::string, const AlarmCount*>> by_op;
  for (const AlarmCount& a : table.alarms) {
    if (a.inputs != input_classes[0]) continue;
    by_op[a.op][a.rule] = &a;
    if (std::ranges::find(rules, a.rule) == rules.end()) rules.push_back(a.rule);
  }
  std::vector<Column> columns{{.title = "op"}};
  for (const std::string& rule : rules) columns.push_back({.title = rule, .number = true});
  Table t(std::move(columns));
  for (const auto& [op, counts] : by_op) {
    std::vector<Cell> cells{{op}};
    for (const std::string& rule : rules) {
      const auto a = counts.find(rule);
      cells.push_back({a == counts.end() ? "" : share(a->second->flagged_cases, a->second->cases)});
    }
    t.add_row(std::move(cells));
  }
  return t;
}

/// "every one of 322 faults found; 1.0e9 elements of 40000 right cases, none refused".
std::string last_line_of(const PowerTable& table) {
  const RuleTotals own = detail::totals_of(table).front();
  std::uint64_t cases = 0, flagged = 0, elements = 0;
  for (std::size_t c = 0; c < input_classes.size(); ++c) {
    cases += own.cases[c];
    flagged += own.flagged[c];
    elements += own.elements[c];
  }
  std::string text =
      fmt::format("opbound: {} of {} faults caught", own[Detection::caught], table.rows.size());
  if (cases > 0)
    text += fmt::format("; {} of {} right kernels refused, {} elements checked ({})", flagged,
                        cases, legible(elements), table.cases);
  return text + (table.is_whole ? "\n" : "; interrupted\n");
}

constexpr std::string_view words =
    "caught: refused, and the same kernel without the fault is not. both: both are refused, which\n"
    "tells nothing. missed: accepted. n/a: the rule says nothing of such an operator, format or\n"
    "output. Right kernels are cases of the suites, by the op's first algorithm on ordinary "
    "inputs\n"
    "(normal or uniform, of size 1) and on hard ones, and by other algorithms.\n";

}  // namespace

std::string power_table(const PowerTable& table, const TableOptions& options) {
  std::string text = summary_of_rules(table).terminal(options.terminal) + "\n" + std::string(words);
  std::vector<PowerRow> shown;
  for (const PowerRow& row : table.rows)
    if (options.all || row.detection != Detection::caught) shown.push_back(row);
  if (!shown.empty()) text += "\n" + every_fault(shown, false).terminal(options.terminal);
  std::string refused;
  for (const AlarmCount& a : table.alarms)
    if (a.rule == own_rule && a.flagged_cases > 0)
      refused += fmt::format("refused although right: {} of {} cases of {}, {} inputs\n",
                             a.flagged_cases, a.cases, a.op, a.inputs);
  return text + "\n" + refused + last_line_of(table);
}

std::string power_page(const PowerTable& table) {
  std::string text =
      "# What finds which fault\n\n"
      "Made by `opbound power --records FILE --markdown`, never edited. Faulty kernels and their\n"
      "twins without the fault run on the same inputs; opbound judges the outputs by the right\n"
      "kernel's bound, the rules that others use today by their own figures, given the exact "
      "value\n"
      "as reference.\n\n![caught, missed and wrongly refused](power.svg)\n\n";
  text += summary_of_rules(table).markdown() + "\n" + std::string(words) + "\n" +
          last_line_of(table) + "\n## Where the figures are from\n\n";
  Table sources({{.title = "rule"}, {.title = "what"}, {.title = "source"}});
  for (const Rival& r : rivals())
    sources.add_row({{std::string(r.name)}, {std::string(r.what)}, {std::string(r.sources)}});
  text += sources.markdown();
  const std::pair<std::string_view, std::string_view> families[] = {
      {"op", "Planted faults of operators"},
      {"collective", "Planted faults of collectives"},
      {"training", "Planted faults of training"},
      {"case", "Public reports, made again"}};
  for (const auto& [family, title] : families) {
    std::vector<PowerRow> rows;
    for (const PowerRow& row : table.rows)
      if (row.family == family) rows.push_back(row);
    if (!rows.empty())
      text += fmt::format("\n## {}\n\n", title) + every_fault(rows, true).markdown();
  }
  if (!table.alarms.empty())
    text += "\n## Right kernels that are refused, on ordinary inputs\n\nCases by op.\n\n" +
            alarms_by_op(table).markdown();
  return text;
}

}  // namespace opbound
