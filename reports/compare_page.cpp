// A comparison as a page for a browser: one file, no script, nothing from elsewhere.
#include <algorithm>

#include "reports/compare_plot.hpp"
#include "reports/compare_table.hpp"
#include "reports/page.hpp"
#include "reports/record_words.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

constexpr std::string_view arrow = "\u2192", times = "\u00d7";

constexpr std::string_view style = R"css(
:root { --old: #9aa3af;
  --contract-broken: #c1121f; --worse: #b45309; --better: #15803d; --same-error: #2563eb;
  --same-bits: #6b7280; --only-in-old: #7c3aed; --only-in-new: #7c3aed; --skipped: #6b7280; }
@media (prefers-color-scheme: dark) {
  :root { --old: #6b7280;
    --contract-broken: #ff6b6b; --worse: #fbbf24; --better: #4ade80; --same-error: #7aa2ff;
    --same-bits: #9aa3af; --only-in-old: #b794f6; --only-in-new: #b794f6; --skipped: #9aa3af; } }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; }
.tile b { display: block; font-size: 1.6rem; line-height: 1.2; color: var(--change); }
.tile.none, .tile.none b { color: var(--faint); }
table { border-collapse: collapse; font-size: .85rem; }
th { text-align: left; font-weight: 600; color: var(--faint); position: sticky; top: 0;
  background: var(--paper); }
th, td { padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.c { color: var(--change); font-weight: 600; } td.c, td.v { white-space: nowrap; }
.diagonal { stroke: var(--faint); } .old { fill: var(--old); }
circle, .new { fill: var(--change); fill-opacity: .75; }
summary { cursor: pointer; color: var(--faint); margin: 1rem 0; }
)css";

std::string tiles(const Comparison& comparison) {
  std::string text = "<div class=\"tiles\">\n";
  for (const Change c : all_changes) {
    const std::uint64_t n = comparison.counts[c];
    text += "<div class=\"tile" + std::string(n == 0 ? " none" : "") + "\" " +
            detail::colour_style(c) + "><b>" + std::to_string(n) + "</b>" +
            std::string(name_of(c)) + "</div>\n";
  }
  return text + "</div>\n";
}

std::string cell(const std::string& text, std::string_view kind = {}) {
  return "<td" + (kind.empty() ? std::string() : " class=\"" + std::string(kind) + "\"") + ">" +
         html_text(text) + "</td>";
}

std::string numbers(const ComparedCheck& check) {
  std::string text;
  for (const auto number : {&Record::error_ulp_max, &Record::ratio, &Record::bias_ulp})
    text += cell(detail::number_text(check, number, arrow), "n");
  return text;
}

std::string titles(std::initializer_list<const char*> words) {
  std::string text = "<table>\n<tr>";
  for (const char* word : words) text.append("<th scope=\"col\">").append(word).append("</th>");
  return text + "</tr>\n";
}

/// Rows of the error table, each with the histograms of its errors.
std::string rows_text(const std::vector<const CompareRow*>& rows,
                      const VaryingAttributes& attributes) {
  if (rows.empty()) return "";
  std::string text = titles({"op", "direction", "precision", "change", "checks", "same bits",
                             "worse", "better", "verdict", "max ulp", "ratio", "bias ulp",
                             "seen in", "errors: old above, new below", "whose"});
  for (const CompareRow* row : rows) {
    const Record& r = row->shown->shown();
    text += "<tr " + detail::colour_style(row->change()) + ">";
    for (const std::string& name : {r.op, direction_text(r.direction, false), r.precision})
      text += cell(name);
    text += cell(std::string(name_of(row->change())), "c");
    for (const std::uint64_t n : {std::uint64_t{row->checks.size()}, row->same_bits,
                                  row->counts[Change::contract_broken] + row->counts[Change::worse],
                                  row->counts[Change::better]})
      text += cell(std::to_string(n), "n");
    text += cell(detail::verdict_change(*row->shown, arrow), "v") + numbers(*row->shown) +
            cell(detail::place_text(r, attributes.of(r), times)) + "<td>" +
            detail::histograms_of(*row) + "</td>" +
            cell(r.provider + (r.device.empty() ? "" : ", " + r.device)) + "</tr>\n";
  }
  return text + "</table>\n";
}

/// Every check that makes the diff fail, as far as anybody reads.
std::string findings_text(const Comparison& comparison, const VaryingAttributes& attributes) {
  constexpr std::size_t most = 200;
  std::string rows;
  std::size_t count = 0;
  for (const Change change : {Change::contract_broken, Change::worse, Change::only_in_new})
    for (const ComparedCheck& c : comparison.checks) {
      if (c.change != change || (change == Change::only_in_new && !c.is_new_finding())) continue;
      if (++count > most) continue;
      const Record& r = c.shown();
      const std::string& reason = c.after.front()->reason;
      rows += "<tr " + detail::colour_style(c.change) + ">" +
              cell(std::string(name_of(c.change)), "c") + cell(c.decided_by);
      for (const std::string& name : {r.op, direction_text(r.direction, false), r.precision})
        rows += cell(name);
      rows += "<td>" + html_text(detail::place_text(r, attributes.of(r), times)) +
              (reason.empty() ? "" : "<br><span class=\"faint\">" + html_text(reason) + "</span>") +
              "</td>" + cell(detail::verdict_change(c, arrow), "v") + numbers(c) + "</tr>\n";
    }
  if (count == 0) return "";
  std::string text = titles({"change", "by", "op", "direction", "precision", "check", "verdict",
                             "max ulp", "ratio", "bias ulp"}) +
                     rows + "</table>\n";
  if (count > most)
    text += "<p class=\"faint\">and " + std::to_string(count - most) +
            " more; <code>opbound diff --csv</code> has all of them</p>\n";
  return text;
}

/// Without what comes along: "torch 2.9.1" of "torch 2.9.1, mkl Version 2024.2".
Told brief(Told told) {
  for (std::string* value : {&told.before, &told.after})
    value->erase(std::min(value->find(", "), value->size()));
  return told;
}

std::string head(const Comparison& comparison) {
  std::string title = "opbound diff", lines;
  for (const Told& told : comparison.differences()) {
    if (lines.empty()) title = text_of(brief(told), arrow);
    lines += "<br>differs: " + html_text(text_of(told, arrow)) + "\n";
  }
  return page_head(title, style) + "<p class=\"faint\">old: " + html_text(comparison.old_name) +
         "<br>new: " + html_text(comparison.new_name) + lines + "</p>\n";
}

}  // namespace

std::string_view detail::compare_style() { return style; }

std::string detail::compare_body(const Comparison& comparison, std::string_view heading) {
  const std::vector<CompareRow> rows = rows_of(comparison, false);
  std::vector<const CompareRow*> changed, same;
  for (const CompareRow& row : rows) (row.is_changed() ? changed : same).push_back(&row);
  const VaryingAttributes attributes = detail::attributes_of(comparison);
  const auto titled = [&](const std::string& title) {
    return "<" + std::string(heading) + ">" + title + "</" + std::string(heading) + ">\n";
  };
  std::string text = tiles(comparison);
  text +=
      titled("Largest error of each check") +
      "<p class=\"faint\">In ulp of the output format, old "
      "to the right, new upwards: above the diagonal errors grew. A point stands for all checks "
      "of one colour that fall on it; it names one of them.</p>\n" +
      detail::scatter_of(comparison);
  const std::string findings = findings_text(comparison, attributes);
  if (!findings.empty()) text += titled("Checks that are broken or worse") + findings;
  if (!changed.empty())
    text += titled("By op, direction and precision") + rows_text(changed, attributes);
  if (!same.empty())
    text += "<details><summary>" + std::to_string(same.size()) +
            " rows without a change</summary>\n" + rows_text(same, attributes) + "</details>\n";
  return text + "<p class=\"faint\">" + html_text(last_line(comparison)) + "</p>\n";
}

std::string compare_page(const Comparison& comparison) {
  return head(comparison) + detail::compare_body(comparison, "h2") + page_end();
}

}  // namespace opbound
