#include "reports/compare_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "reports/record_words.hpp"
#include "reports/standing.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

/// By which factor the largest error changed; 0 where that is not known.
double factor_of(const ComparedCheck& check) {
  if (!is_compared(check.change)) return 0;
  const auto before = check.before.front()->error_ulp_max,
             after = check.after.front()->error_ulp_max;
  if (!before || !after) return 0;
  if (*before == *after) return 1;
  const double factor = std::max(*before / *after, *after / *before);
  return std::isnan(factor) ? std::numeric_limits<double>::infinity() : factor;
}

double error_of(const ComparedCheck& check) { return check.shown().error_ulp_max.value_or(0); }

auto place_of(const Record& r) {
  return std::tie(r.op, r.direction, r.precision, r.provider, r.device);
}

bool makes_diff_fail(const CompareRow& row) { return row.change() <= Change::worse; }

Colour colour_of(Change c) {
  switch (c) {
    case Change::contract_broken:
      return Colour::bad;
    case Change::worse:
      return Colour::doubtful;
    case Change::better:
      return Colour::good;
    default:
      return Colour::plain;
  }
}

std::string unless_0(std::uint64_t n) { return n == 0 ? "" : std::to_string(n); }

/// Names, the change and the largest error stay however narrow it is.
Table readable_table(const std::vector<CompareRow>& rows, const VaryingAttributes& attributes,
                     bool all, bool brief, bool unicode) {
  Table table({{.title = "op"},
               {.title = brief ? "dir" : "direction"},
               {.title = "precision"},
               {.title = "provider", .dispensable = 7},
               {.title = "device", .dispensable = 8},
               {.title = "change"},
               {.title = "by", .dispensable = 5},
               {.title = "checks", .number = true, .dispensable = 4},
               {.title = "same bits", .number = true, .least_width = 4, .dispensable = 3},
               {.title = "worse", .number = true},
               {.title = "better", .number = true, .dispensable = 2},
               {.title = "only old", .number = true, .least_width = 4},
               {.title = "only new", .number = true, .least_width = 4},
               {.title = "skipped", .number = true, .dispensable = 9},
               {.title = "verdict"},
               {.title = "max ulp", .number = true},
               {.title = "ratio", .number = true, .dispensable = 1},
               {.title = "bias ulp", .number = true, .dispensable = 6},
               {.title = all ? "check" : "seen in", .least_width = 20, .dispensable = 2}});
  const std::string_view arrow = unicode ? "\u2192" : "->", times = unicode ? "\u00d7" : "x";
  const CompareRow* last = nullptr;
  for (const CompareRow& row : rows) {
    const Record& r = row.shown->shown();
    if (last != nullptr && (makes_diff_fail(*last) != makes_diff_fail(row) ||
                            (last->shown->shown().op != r.op && !makes_diff_fail(row))))
      table.add_rule();
    last = &row;
    const Change change = row.change();
    const auto count = [&](std::uint64_t n) { return all ? "" : unless_0(n); };
    table.add_row(
        {{r.op},
         {direction_text(r.direction, brief)},
         {r.precision},
         {r.provider},
         {r.device},
         {std::string(name_of(change)), colour_of(change)},
         {row.shown->decided_by},
         {count(row.checks.size())},
         {all || row.counts.compared() == 0 ? "" : std::to_string(row.same_bits)},
         {count(row.counts[Change::contract_broken] + row.counts[Change::worse])},
         {count(row.counts[Change::better])},
         {count(row.counts[Change::only_in_old])},
         {count(row.counts[Change::only_in_new])},
         {count(row.counts[Change::skipped])},
         {detail::verdict_change(*row.shown, arrow), colour_of(change)},
         {detail::number_text(*row.shown, &Record::error_ulp_max, arrow)},
         {detail::number_text(*row.shown, &Record::ratio, arrow)},
         {detail::number_text(*row.shown, &Record::bias_ulp, arrow)},
         {all || row.is_changed() ? detail::place_text(r, attributes.of(r), times) : ""}});
  }
  return table;
}

Table full_table(const Comparison& comparison) {
  std::vector<Column> columns;
  for (const char* title :
       {"change", "by", "kind", "op", "part", "direction", "variant", "precision", "attributes",
        "shape", "input", "seed", "provider", "device"})
    columns.push_back({.title = title});
  for (const char* run : {"old_", "new_"})
    for (const char* title : {"times", "verdict", "error_ulp_max", "ratio", "bias_ulp",
                              "error_ulp_mean", "checked", "output_hash", "reason"})
      columns.push_back({.title = std::string(run) + title});
  Table table(std::move(columns));
  const auto shown = [](const std::optional<double>& x) { return x ? shortest(*x) : ""; };
  for (const ComparedCheck& c : comparison.checks) {
    const Record& r = c.shown();
    std::vector<Cell> cells{{std::string(name_of(c.change))},
                            {c.decided_by},
                            {std::string(name_of(r.kind))},
                            {r.op},
                            {r.part},
                            {r.direction},
                            {r.variant},
                            {r.precision},
                            {attributes_text(r.attributes)},
                            {shape_text(r, "x")},
                            {r.inputs.input},
                            {r.inputs.seed ? std::to_string(*r.inputs.seed) : ""},
                            {r.provider},
                            {r.device}};
    for (const auto* of : {&c.before, &c.after}) {
      if (of->empty()) {
        cells.resize(cells.size() + 9);
        continue;
      }
      const Record& one = *of->front();
      for (std::string text :
           {std::to_string(of->size()), std::string(name_of(one.verdict)), shown(one.error_ulp_max),
            shown(one.ratio), shown(one.bias_ulp), shown(one.error_ulp_mean),
            std::to_string(one.counts.checked), one.output_hash, one.reason})
        cells.push_back({std::move(text)});
    }
    table.add_row(std::move(cells));
  }
  return table;
}

/// "failed 3: it crashed", each reason of a finding once.
std::vector<std::string> reasons(const Comparison& comparison) {
  std::map<std::string, std::uint64_t> counted;
  for (const ComparedCheck& c : comparison.checks) {
    const bool is_finding = c.change <= Change::worse || c.is_new_finding();
    if (is_finding && !c.after.front()->reason.empty())
      ++counted[std::string(name_of(c.after.front()->verdict)) + "\n" + c.after.front()->reason];
  }
  std::vector<std::string> lines;
  for (const auto& [what, count] : counted) {
    const std::size_t end = what.find('\n');
    lines.push_back(what.substr(0, end) + " " + std::to_string(count) + ": " +
                    what.substr(end + 1));
  }
  return lines;
}

}  // namespace

Change CompareRow::change() const {
  for (const Change c : all_changes)
    if (is_compared(c) && counts[c] > 0) return c;
  return *std::ranges::max_element(all_changes, {}, [&](Change c) { return counts[c]; });
}

bool CompareRow::is_changed() const {
  return counts[Change::same_bits] + counts[Change::skipped] < checks.size();
}

std::vector<CompareRow> rows_of(const Comparison& comparison, bool all) {
  std::vector<CompareRow> rows;
  std::map<decltype(place_of(comparison.checks[0].shown())), std::size_t> known;
  for (const ComparedCheck& c : comparison.checks) {
    const auto [found, is_new] = known.try_emplace(place_of(c.shown()), rows.size());
    const std::size_t at = all ? rows.size() : found->second;
    if (all || is_new) rows.emplace_back();
    CompareRow& row = rows[at];
    row.checks.push_back(&c);
    row.counts.add(c.change);
    row.same_bits += c.has_same_bits() ? 1 : 0;
  }
  for (CompareRow& row : rows) {
    const auto key = [&](const ComparedCheck* c) {
      return std::tuple(c->change == row.change(), factor_of(*c), error_of(*c));
    };
    row.shown = *std::ranges::max_element(row.checks, {}, key);
  }
  std::map<std::string_view, std::size_t> op, direction, precision;
  for (const CompareRow& row : rows) {
    op.try_emplace(row.shown->shown().op, op.size());
    direction.try_emplace(row.shown->shown().direction, direction.size());
    precision.try_emplace(row.shown->shown().precision, precision.size());
  }
  std::ranges::stable_sort(rows, {}, [&](const CompareRow& row) {
    const Record& r = row.shown->shown();
    const int failing = makes_diff_fail(row) ? static_cast<int>(row.change()) : 2;
    return std::tuple(failing, op[r.op], direction[r.direction], precision[r.precision]);
  });
  return rows;
}

std::string last_line(const Comparison& c) {
  std::string text;
  for (const Change change : all_changes) {
    text += text.empty() ? "" : change == Change::only_in_old ? "; " : ", ";
    text += std::string(name_of(change)) + " " + std::to_string(c.counts[change]);
  }
  if (c.newly_skipped > 0) text += " (" + std::to_string(c.newly_skipped) + " of them ran in old)";
  if (c.new_findings > 0)
    text += "; of what old did not run " + std::to_string(c.new_findings) + " make the run fail";
  return text;
}

std::string compare_table(const Comparison& comparison, const CompareOptions& options) {
  if (options.table.style == TableStyle::csv) return full_table(comparison).csv();
  const bool markdown = options.table.style == TableStyle::markdown;
  const bool unicode = markdown || options.table.terminal.unicode;
  std::vector<CompareRow> rows = rows_of(comparison, options.table.all);
  const std::size_t row_count = rows.size();
  if (options.only_changed)
    std::erase_if(rows, [](const CompareRow& r) { return !r.is_changed(); });
  std::string text;
  const auto say = [&](const std::string& line) {
    text += (markdown ? "- " : "") + printable(line, unicode) + "\n";
  };
  say("old: " + comparison.old_name);
  say("new: " + comparison.new_name);
  for (const Told& told : comparison.differences())
    say("differs: " + text_of(told, unicode ? "\u2192" : "->"));
  text += "\n";
  if (!rows.empty()) {
    const Table table = readable_table(rows, detail::attributes_of(comparison), options.table.all,
                                       !markdown, unicode);
    text += (markdown ? table.markdown() : table.terminal(options.table.terminal)) + "\n";
  }
  const std::vector<std::string> why = reasons(comparison);
  for (const std::string& reason : why) say(reason);
  if (markdown && !why.empty()) text += "\n";
  if (rows.size() < row_count)
    text += std::to_string(row_count - rows.size()) + " rows without a change are not shown\n" +
            (markdown ? "\n" : "");
  return text + last_line(comparison) + "\n";
}

namespace detail {

std::string change_text(const std::optional<double>& before, const std::optional<double>& after,
                        std::string_view arrow) {
  const auto shown = [](const std::optional<double>& x) { return x ? legible(*x) : "none"; };
  if (!before && !after) return "";
  const std::string a = shown(before), b = shown(after);
  if (before == after || (a == b && std::isnan(*before))) return b;
  if (a != b) return a + " " + std::string(arrow) + " " + b;
  const double difference = *after - *before;
  return b + " (" + (difference > 0 ? "+" : "") + legible(difference) + ")";
}

std::string number_text(const ComparedCheck& c, std::optional<double> Record::*number,
                        std::string_view arrow) {
  const Record& any = c.shown();
  if (!is_compared(c.change)) return change_text(any.*number, any.*number, arrow);
  return change_text(c.before.front()->*number, c.after.front()->*number, arrow);
}

std::string verdict_change(const ComparedCheck& check, std::string_view arrow) {
  const auto name = [](const std::vector<const Record*>& of) {
    return std::string(name_of(of.front()->verdict)) + (is_allowed(*of.front()) ? "*" : "");
  };
  if (check.before.empty() || check.after.empty())
    return name(check.before.empty() ? check.after : check.before);
  const std::string a = name(check.before), b = name(check.after);
  return a == b ? b : a + " " + std::string(arrow) + " " + b;
}

std::string place_text(const Record& r, const std::string& attributes, std::string_view times) {
  std::string text;
  for (const std::string& word :
       {r.kind == CheckKind::agreement ? std::string(name_of(r.kind)) : std::string(), r.part,
        r.variant, attributes, shape_text(r, times), r.inputs.input})
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  return text;
}

VaryingAttributes attributes_of(const Comparison& comparison) {
  VaryingAttributes attributes;
  for (const ComparedCheck& c : comparison.checks) attributes.add(c.shown());
  return attributes;
}

}  // namespace detail

}  // namespace opbound
