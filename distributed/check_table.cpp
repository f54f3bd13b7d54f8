#include "distributed/check_table.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "distributed/check.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

/// Has it a column? The error has two, and what only tells stands below.
bool has_column(const AskedCheck& check) { return check.is_judged && check.name != "y"; }

using Key = std::tuple<std::string, std::string, std::string>;

Key key_of(const Record& r) {
  const std::string_view order = order_of(r);
  return {std::string(name_of(collective_of(r))), r.precision,
          order.empty() ? r.variant : std::string(order)};
}

/// Checks of one case, by part; the first stands for all of them.
struct Checked {
  const Record* first;
  std::map<std::string_view, const Record*> parts;
  Verdict verdict = Verdict::within;
};

std::vector<Checked> cases_of(std::span<const Record> records) {
  std::vector<Checked> cases;
  std::map<Key, std::size_t> places;
  for (const Record& r : records) {
    const auto [place, is_new] = places.try_emplace(key_of(r), cases.size());
    if (is_new) cases.push_back({&r, {}, Verdict::within});
    Checked& c = cases[place->second];
    c.parts[r.part] = &r;
    const bool tells = r.verdict != Verdict::skipped || r.part.empty();
    if (tells) c.verdict = worse(c.verdict, r.verdict);
  }
  return cases;
}

/// A check whose skipped record says what nobody else does.
bool tells_anyway(std::string_view part) {
  const auto* check = std::ranges::find(asked_checks, part, &AskedCheck::name);
  return check != asked_checks.end() && check->tells;
}

Cell answer(const Record* r) {
  if (r == nullptr) return {""};
  if (r->verdict == Verdict::within) return {"yes", Colour::good};
  if (r->verdict != Verdict::skipped) return {"no", Colour::bad};
  if (r->counts.checked == 0) return {"-"};
  return {r->counts.within == r->counts.checked ? "same" : "differs"};
}

std::string number(const std::optional<double>& x) { return x ? legible(*x) : ""; }

}  // namespace

std::string checks_table(std::span<const Record> records, const Terminal& terminal) {
  std::vector<Column> columns{{.title = "collective"},
                              {.title = "precision"},
                              {.title = "order"},
                              {.title = "verdict"},
                              {.title = "ratio", .number = true},
                              {.title = "max ulp", .number = true}};
  for (const AskedCheck& check : asked_checks)
    if (has_column(check)) columns.push_back({.title = std::string(check.name)});
  Table table(std::move(columns));
  const std::vector<Checked> cases = cases_of(records);
  const Record* before = nullptr;
  for (const Checked& c : cases) {
    if (before != nullptr && collective_of(*before) != collective_of(*c.first)) table.add_rule();
    before = c.first;
    const auto y = c.parts.find("y");
    const bool is_good = c.verdict == Verdict::within || c.verdict == Verdict::skipped;
    std::vector<Cell> row{{std::get<0>(key_of(*c.first))},
                          {c.first->precision},
                          {std::get<2>(key_of(*c.first))},
                          {std::string(name_of(c.verdict)), is_good ? Colour::good : Colour::bad},
                          {y == c.parts.end() ? "" : number(y->second->ratio)},
                          {y == c.parts.end() ? "" : number(y->second->error_ulp_max)}};
    for (const AskedCheck& check : asked_checks) {
      if (!has_column(check)) continue;
      const auto found = c.parts.find(check.name);
      row.push_back(answer(found == c.parts.end() ? nullptr : found->second));
    }
    table.add_row(std::move(row));
  }
  std::string text = table.terminal(terminal) + "\n";
  for (const Checked& c : cases)
    for (const auto& [part, r] : c.parts) {
      const bool tells = r->verdict != Verdict::within && !r->reason.empty() &&
                         (r->verdict != Verdict::skipped || part.empty() || tells_anyway(part));
      if (!tells) continue;
      std::string words = std::get<0>(key_of(*r));
      for (const std::string& word : {r->precision, std::get<2>(key_of(*r))})
        words += word.empty() ? "" : " " + word;
      words += part.empty() ? ": " : ", " + std::string(part) + ": ";
      text += printable(words + r->reason, terminal.unicode) + "\n";
    }
  return text;
}

}  // namespace opbound
