// The overview: a row for each op and precision, for runs of more records than anybody reads.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/table.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

/// What the records of one op in one precision say together.
struct Group {
  std::set<std::string> variants;
  std::uint64_t checks = 0, elements = 0, vacuous = 0, others = 0;
  std::uint64_t agreements = 0, agreeing = 0;
  double ratio = 0, acceptable_sum = 0, acceptable_max = 0, error_ulp_max = 0, bias_ulp = 0;
  std::uint64_t with_numbers = 0;

  void add(const Record& r) {
    if (r.kind == CheckKind::agreement) {
      ++agreements;
      agreeing += r.verdict == Verdict::within ? 1 : 0;
      return;
    }
    ++checks;
    elements += r.counts.checked;
    variants.insert(r.variant);
    vacuous += r.verdict == Verdict::vacuous ? 1 : 0;
    others += r.verdict != Verdict::vacuous && r.verdict != Verdict::within ? 1 : 0;
    if (r.verdict != Verdict::within || !r.acceptable_mean) return;
    ++with_numbers;
    ratio = std::max(ratio, r.ratio.value_or(0));
    acceptable_sum += *r.acceptable_mean;
    acceptable_max = std::max(acceptable_max, r.acceptable_max.value_or(0));
    error_ulp_max = std::max(error_ulp_max, r.error_ulp_max.value_or(0));
    if (std::fabs(r.bias_ulp.value_or(0)) > std::fabs(bias_ulp)) bias_ulp = *r.bias_ulp;
  }
};

std::vector<Column> columns() {
  return {{"op"},
          {"precision"},
          {"variants", true, 0, 1},
          {"checks", true},
          {"elements", true},
          {"within", true},
          {"vacuous", true},
          {"other", true},
          {"largest ratio", true},
          {"acceptable mean/max", true, 0, 2},
          {"max ulp", true},
          {"bias ulp", true, 0, 3},
          {"bits as on the host", true, 0, 4}};
}

std::vector<Cell> row_of(const std::string& op, const std::string& precision, const Group& g) {
  const bool has_numbers = g.with_numbers > 0;
  const auto count = static_cast<double>(g.with_numbers);
  const auto number = [&](double x) { return Cell{has_numbers ? legible(x) : ""}; };
  return {{op},
          {precision},
          {std::to_string(g.variants.size())},
          {std::to_string(g.checks)},
          {legible(g.elements)},
          {std::to_string(g.checks - g.vacuous - g.others)},
          {g.vacuous == 0 ? "" : std::to_string(g.vacuous)},
          {g.others == 0 ? "" : std::to_string(g.others)},
          number(g.ratio),
          {has_numbers ? legible(g.acceptable_sum / count) + "/" + legible(g.acceptable_max) : ""},
          number(g.error_ulp_max),
          number(g.bias_ulp),
          {g.agreements == 0 ? ""
                             : std::to_string(g.agreeing) + " of " + std::to_string(g.agreements)}};
}

}  // namespace

std::string overview_table(std::span<const Record> records, const TableOptions& options) {
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const Record& r : records) groups[{r.op, r.precision}].add(r);
  Table table(columns());
  std::string op;
  for (const auto& [key, group] : groups) {
    if (!op.empty() && key.first != op) table.add_rule();
    op = key.first;
    table.add_row(row_of(key.first, key.second, group));
  }
  if (options.style == TableStyle::csv) return table.csv();
  const bool markdown = options.style == TableStyle::markdown;
  return (markdown ? table.markdown() : table.terminal(options.terminal)) + "\n" +
         last_line(summary_of(records)) + "\n";
}

}  // namespace opbound
