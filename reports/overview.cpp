// The overview: a row for each op and precision, for runs of more records than anybody reads.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "reports/table.hpp"
#include "reports/text.hpp"
#include "reports/varying_attributes.hpp"

namespace opbound {
namespace {

/// What a row stands for; only op and precision where not all of it is asked for.
struct Key {
  std::string op, precision, part, direction, variant, attributes;

  bool operator<(const Key& other) const {
    const auto all = [](const Key& k) {
      return std::tie(k.op, k.precision, k.part, k.direction, k.variant, k.attributes);
    };
    return all(*this) < all(other);
  }
};

/// What the records of one row say together.
struct Group {
  std::set<std::string> variants;
  VerdictCounts verdicts;
  std::uint64_t elements = 0, agreements = 0, agreeing = 0;
  double ratio = 0, acceptable_sum = 0, acceptable_max = 0, error_ulp_max = 0, bias_ulp = 0;
  std::uint64_t with_numbers = 0;

  void add(const Record& r) {
    if (r.kind == CheckKind::agreement) {
      ++agreements;
      agreeing += r.verdict == Verdict::within ? 1 : 0;
      return;
    }
    verdicts.add(r.verdict);
    elements += r.counts.checked;
    variants.insert(r.variant);
    if (r.verdict != Verdict::within || !r.acceptable_mean) return;
    ++with_numbers;
    ratio = std::max(ratio, r.ratio.value_or(0));
    acceptable_sum += *r.acceptable_mean;
    acceptable_max = std::max(acceptable_max, r.acceptable_max.value_or(0));
    error_ulp_max = std::max(error_ulp_max, r.error_ulp_max.value_or(0));
    if (std::fabs(r.bias_ulp.value_or(0)) > std::fabs(bias_ulp)) bias_ulp = *r.bias_ulp;
  }

  std::uint64_t checks() const {
    return std::accumulate(verdicts.of.begin(), verdicts.of.end(), std::uint64_t{0});
  }
  /// A number of the checks within their bound, if any has one.
  template <class Show>
  std::string number(double x, Show show) const {
    return with_numbers > 0 ? show(x) : "";
  }
  double acceptable_mean() const { return acceptable_sum / static_cast<double>(with_numbers); }
};

using Groups = std::map<Key, Group>;

/// Op, precision, verdicts and ratio stay however narrow it is; `acceptable` goes last.
Table readable_table(const Groups& groups) {
  Table table(
      {{.title = "op"},
       {.title = "part"},
       {.title = "direction"},
       {.title = "variant"},
       {.title = "precision"},
       {.title = "attributes", .least_width = 16},
       {.title = "variants", .number = true, .dispensable = 7},
       {.title = "checks", .number = true, .dispensable = 4},
       {.title = "elements", .number = true, .dispensable = 6},
       {.title = "within", .number = true},
       {.title = "vacuous", .number = true},
       {.title = "other", .number = true},
       {.title = "largest ratio", .number = true, .least_width = 7},
       {.title = "acceptable mean/max", .number = true, .least_width = 10, .dispensable = 1},
       {.title = "max ulp", .number = true, .dispensable = 3},
       {.title = "bias ulp", .number = true, .dispensable = 5},
       {.title = "bits as on the host", .number = true, .least_width = 10, .dispensable = 2}});
  const auto show = [](double x) { return legible(x); };
  const auto unless_0 = [](std::uint64_t n) { return n == 0 ? "" : std::to_string(n); };
  const std::string* op = nullptr;
  for (const auto& [key, g] : groups) {
    if (op != nullptr && key.op != *op) table.add_rule();
    op = &key.op;
    const std::uint64_t within = g.verdicts[Verdict::within];
    const std::uint64_t vacuous = g.verdicts[Verdict::vacuous];
    table.add_row(
        {{key.op},
         {key.part},
         {key.direction},
         {key.variant},
         {key.precision},
         {key.attributes},
         {std::to_string(g.variants.size())},
         {std::to_string(g.checks())},
         {legible(g.elements)},
         {std::to_string(within)},
         {unless_0(vacuous)},
         {unless_0(g.checks() - within - vacuous)},
         {g.number(g.ratio, show)},
         {g.number(g.acceptable_mean(), show) +
          g.number(g.acceptable_max, [](double x) { return "/" + legible(x); })},
         {g.number(g.error_ulp_max, show)},
         {g.number(g.bias_ulp, show)},
         {g.agreements == 0 ? ""
                            : std::to_string(g.agreeing) + " of " + std::to_string(g.agreements)}});
  }
  return table;
}

Table full_table(const Groups& groups) {
  std::vector<Column> columns;
  for (const char* title : {"op", "part", "direction", "variant", "precision", "attributes",
                            "variants", "checks", "elements"})
    columns.push_back({.title = title});
  for (const Verdict v : all_verdicts) columns.push_back({.title = std::string(name_of(v))});
  for (const char* title : {"ratio", "acceptable_mean", "acceptable_max", "error_ulp_max",
                            "bias_ulp", "agreements", "agreeing"})
    columns.push_back({.title = title});
  Table table(std::move(columns));
  for (const auto& [key, g] : groups) {
    std::vector<Cell> row{{key.op},
                          {key.part},
                          {key.direction},
                          {key.variant},
                          {key.precision},
                          {key.attributes},
                          {std::to_string(g.variants.size())},
                          {std::to_string(g.checks())},
                          {std::to_string(g.elements)}};
    for (const Verdict v : all_verdicts) row.push_back({std::to_string(g.verdicts[v])});
    for (const double x :
         {g.ratio, g.acceptable_mean(), g.acceptable_max, g.error_ulp_max, g.bias_ulp})
      row.push_back({g.number(x, shortest)});
    row.push_back({std::to_string(g.agreements)});
    row.push_back({std::to_string(g.agreeing)});
    table.add_row(std::move(row));
  }
  return table;
}

}  // namespace

std::string overview_table(std::span<const Record> records, const TableOptions& options) {
  const bool is_csv = options.style == TableStyle::csv;
  const VaryingAttributes varying(records);
  Groups groups;
  for (const Record& r : records) {
    Key key{r.op, r.precision, {}, {}, {}, {}};
    if (options.all)
      key = {r.op,        r.precision, r.part,
             r.direction, r.variant,   is_csv ? attributes_text(r.attributes) : varying.of(r)};
    groups[key].add(r);
  }
  if (is_csv) return full_table(groups).csv();
  const Table table = readable_table(groups);
  const bool is_markdown = options.style == TableStyle::markdown;
  return (is_markdown ? table.markdown() : table.terminal(options.terminal)) + "\n" +
         last_line(summary_of(records)) + "\n";
}

}  // namespace opbound
