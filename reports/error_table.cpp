// The error table: which records make a row, which rows stand first, and what a row says.
#include <algorithm>
#include <map>
#include <tuple>

#include "reports/record_words.hpp"
#include "reports/standing.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "reports/varying_attributes.hpp"

namespace opbound {
namespace {

/// Standing, then ratio, then error; a number that is absent counts as the smallest.
bool is_worse(const Record& a, const Record& b) {
  const auto key = [](const Record& r) {
    return std::tuple(standing(r), -r.ratio.value_or(-1), -r.error_ulp_max.value_or(-1));
  };
  return key(a) < key(b);
}

/// The worst record of those that one row stands for.
struct Row {
  const Record* worst;
  std::size_t cases = 0;
  std::uint64_t checked = 0;
};

/// Everything that tells two rows apart: all of a check's identity but its case.
auto identity(const Record& r) {
  return std::tie(r.op, r.direction, r.precision, r.part, r.variant, r.kind, r.provider,
                  r.provider_version, r.contract, r.device, r.ranks, r.schedule);
}

std::vector<Row> rows_of(std::span<const Record> records, bool all) {
  std::vector<Row> rows;
  std::map<decltype(identity(records[0])), std::size_t> known;
  for (const Record& r : records) {
    const auto [found, is_new] = known.try_emplace(identity(r), rows.size());
    const std::size_t at = all ? rows.size() : found->second;
    if (all || is_new) rows.push_back({&r});
    Row& row = rows[at];
    if (is_worse(r, *row.worst)) row.worst = &r;
    ++row.cases;
    row.checked += r.counts.checked;
  }
  return rows;
}

/// Failing rows first, the worst on top; then op, direction, precision, each in the order of its
/// first record.
void sort_rows(std::vector<Row>& rows) {
  std::map<std::string_view, std::size_t> op, direction, precision;
  for (const Row& row : rows) {
    op.try_emplace(row.worst->op, op.size());
    direction.try_emplace(row.worst->direction, direction.size());
    precision.try_emplace(row.worst->precision, precision.size());
  }
  std::ranges::stable_sort(rows, {}, [&](const Row& row) {
    const Record& r = *row.worst;
    const int failing = makes_run_fail(r) ? standing(r) : 2 * static_cast<int>(all_verdicts.size());
    return std::tuple(failing, op[r.op], direction[r.direction], precision[r.precision]);
  });
}

Cell verdict_cell(const Record& r) {
  const std::string name(name_of(r.verdict));
  if (is_allowed(r)) return {name + "*", Colour::plain};
  switch (r.verdict) {
    case Verdict::failed:
    case Verdict::exceeds:
      return {name, Colour::bad};
    case Verdict::undecided:
    case Verdict::vacuous:
      return {name, Colour::doubtful};
    case Verdict::skipped:
      return {name, Colour::plain};
    case Verdict::within:
      break;
  }
  return {name, Colour::good};
}

template <class Show>
std::string shown(const std::optional<double>& x, Show show) {
  return x ? show(*x) : std::string();
}

/// `brief`: for a terminal. Where that is narrow the names, the verdict and the ratio stay as they
/// are for as long as leaving out other columns will do; of these `acceptable` goes last.
Table readable_table(const std::vector<Row>& rows, const VaryingAttributes& attributes, bool all,
                     bool brief, const char* times) {
  Table table(
      {{.title = "op"},
       {.title = "part"},
       {.title = brief ? "dir" : "direction"},
       {.title = "variant"},
       {.title = "precision"},
       {.title = "attributes", .least_width = 16, .dispensable = 3},
       {.title = all ? "case" : "worst case", .least_width = 20, .dispensable = 2},
       {.title = "cases", .number = true, .dispensable = 9},
       {.title = "provider", .dispensable = 8},
       {.title = "verdict"},
       {.title = "ratio", .number = true},
       {.title = brief ? "acceptable" : "acceptable mean/max", .number = true, .dispensable = 1},
       {.title = "max ulp", .number = true, .dispensable = 4},
       {.title = "bias ulp", .number = true, .dispensable = 5},
       {.title = "bound source", .least_width = 16, .dispensable = 6},
       {.title = "checked", .number = true, .dispensable = 7}});
  const auto number = [](double x) { return legible(x); };
  const auto count = [](double x) {
    return x >= 0 && x < 0x1p63 ? legible(static_cast<std::uint64_t>(x)) : legible(x);
  };
  bool was_failing = false;
  const std::string* last_op = nullptr;
  for (const Row& row : rows) {
    const Record& r = *row.worst;
    if (last_op != nullptr &&
        (was_failing != makes_run_fail(r) || (*last_op != r.op && !was_failing)))
      table.add_rule();
    was_failing = makes_run_fail(r);
    last_op = &r.op;
    std::string place = shape_text(r, times);
    if (!r.inputs.input.empty()) place += (place.empty() ? "" : " ") + r.inputs.input;
    const std::string acceptable =
        r.acceptable_mean || r.acceptable_max
            ? shown(r.acceptable_mean, number) + "/" + shown(r.acceptable_max, count)
            : "";
    table.add_row({{r.op},
                   {r.part},
                   {direction_text(r.direction, brief)},
                   {r.variant},
                   {r.precision},
                   {all ? attributes.of(r) : ""},
                   {place},
                   {all ? "" : std::to_string(row.cases)},
                   {r.provider},
                   verdict_cell(r),
                   {shown(r.ratio, number)},
                   {acceptable},
                   {shown(r.error_ulp_max, number)},
                   {shown(r.bias_ulp, number)},
                   {r.bound_source},
                   {legible(row.checked)}});
  }
  return table;
}

Table full_table(const std::vector<Row>& rows) {
  std::vector<Column> columns;
  for (const char* title : {"op",
                            "part",
                            "direction",
                            "variant",
                            "precision",
                            "attributes",
                            "shape",
                            "input",
                            "seed",
                            "provider",
                            "provider_version",
                            "device",
                            "verdict",
                            "ratio",
                            "acceptable_mean",
                            "acceptable_max",
                            "error_ulp_max",
                            "bias_ulp",
                            "bound_source",
                            "cases",
                            "checked",
                            "allowed_vacuous",
                            "reason"})
    columns.push_back({.title = title});
  Table table(std::move(columns));
  const auto number = [](double x) { return shortest(x); };
  for (const Row& row : rows) {
    const Record& r = *row.worst;
    table.add_row({{r.op},
                   {r.part},
                   {r.direction},
                   {r.variant},
                   {r.precision},
                   {attributes_text(r.attributes)},
                   {shape_text(r, "x")},
                   {r.inputs.input},
                   {r.inputs.seed ? std::to_string(*r.inputs.seed) : ""},
                   {r.provider},
                   {r.provider_version},
                   {r.device},
                   {std::string(name_of(r.verdict))},
                   {shown(r.ratio, number)},
                   {shown(r.acceptable_mean, number)},
                   {shown(r.acceptable_max, number)},
                   {shown(r.error_ulp_max, number)},
                   {shown(r.bias_ulp, number)},
                   {r.bound_source},
                   {std::to_string(row.cases)},
                   {std::to_string(row.checked)},
                   {r.allowed_vacuous},
                   {r.reason}});
  }
  return table;
}

/// "skipped 12: torch is not installed", each reason once, in the order of precedence.
std::vector<std::string> reasons(std::span<const Record> records) {
  std::map<std::tuple<int, std::string, std::string>, std::uint64_t> counted;
  for (const Record& r : records) {
    const std::string name(name_of(r.verdict));
    if (is_allowed(r))
      ++counted[{standing(r), name + "* (allowed by name)", r.allowed_vacuous}];
    else if (!r.reason.empty())
      ++counted[{standing(r), name, r.reason}];
  }
  std::vector<std::string> lines;
  lines.reserve(counted.size());
  for (const auto& [what, count] : counted)
    lines.push_back(std::get<1>(what) + " " + std::to_string(count) + ": " + std::get<2>(what));
  return lines;
}

}  // namespace

void Summary::add(const Record& record) {
  verdicts.add(record.verdict);
  allowed_vacuous += is_allowed(record) ? 1 : 0;
  checked += record.counts.checked;
}

Summary summary_of(std::span<const Record> records) {
  Summary summary;
  for (const Record& r : records) summary.add(r);
  return summary;
}

std::string last_line(const Summary& s) {
  std::string text;
  for (const Verdict v : {Verdict::within, Verdict::vacuous, Verdict::skipped, Verdict::undecided,
                          Verdict::exceeds, Verdict::failed}) {
    if (!text.empty()) text += ", ";
    text += std::string(name_of(v)) + " " + std::to_string(s.verdicts[v]);
    if (v != Verdict::vacuous || s.verdicts[v] == 0) continue;
    if (s.allowed_vacuous == s.verdicts[v])
      text += " (allowed by name)";
    else if (s.allowed_vacuous > 0)
      text += " (" + std::to_string(s.allowed_vacuous) + " allowed by name)";
  }
  return text + "; " + legible(s.checked) + " elements checked";
}

std::string error_table(std::span<const Record> records, const TableOptions& options) {
  std::vector<Row> rows = rows_of(records, options.all);
  sort_rows(rows);
  if (options.style == TableStyle::csv) return full_table(rows).csv();
  const bool markdown = options.style == TableStyle::markdown;
  const bool unicode = markdown || options.terminal.unicode;
  const Table table = readable_table(rows, VaryingAttributes(records), options.all, !markdown,
                                     unicode ? "\u00d7" : "x");
  std::string text;
  if (!rows.empty()) text = (markdown ? table.markdown() : table.terminal(options.terminal)) + "\n";
  for (const std::string& reason : reasons(records))
    text += (markdown ? "- " : "") + printable(reason, unicode) + "\n";
  if (markdown) text += "\n";
  return text + last_line(summary_of(records)) + "\n";
}

}  // namespace opbound
