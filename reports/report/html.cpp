#include "reports/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/tensor.hpp"
#include "reports/page.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

constexpr std::string_view style = R"css(
:root { --pass: #15803d; --fail: #b91c1c; --bar: #4b6bb5; --second: #b45309;
  --h0: #ffffff; --h0-ink: #1c1e21; --h1: #e3ecfb; --h1-ink: #1c1e21; --h2: #c0d5f7;
  --h2-ink: #1c1e21; --h3: #8fb4ef; --h3-ink: #1c1e21; --h4: #2f62b8; --h4-ink: #ffffff;
  --h5: #143a7c; --h5-ink: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --pass: #4ade80; --fail: #ff8080; --bar: #7aa2ff; --second: #fbbf24;
    --h0: #14161a; --h0-ink: #e6e8eb; --h1: #1a2740; --h1-ink: #e6e8eb; --h2: #203a68;
    --h2-ink: #e6e8eb; --h3: #2a5298; --h3-ink: #ffffff; --h4: #8fb4ef; --h4-ink: #14161a;
    --h5: #d3e2fb; --h5-ink: #14161a; } }
body { padding: 0 1rem; } a { color: inherit; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.wide { overflow-x: auto; max-width: 100%; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .85rem; }
caption { text-align: left; color: var(--faint); padding: .8rem 0 .3rem; }
caption span { display: block; position: sticky; left: 0; width: max-content;
  max-width: min(60rem, calc(100vw - 2rem)); }
th { text-align: left; font-weight: 600; } th.n { text-align: right; }
thead th { color: var(--faint); background: var(--paper); vertical-align: bottom; }
tbody th { font-weight: 400; color: var(--ink); position: static; }
th, td { padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.pass { color: var(--pass); font-weight: 600; } .fail { color: var(--fail); font-weight: 600; }
td.short { white-space: nowrap; }
code { font-size: .9em; overflow-wrap: break-word; } p code { overflow-wrap: anywhere; }
table.heat td { text-align: right; padding: .3rem .6rem; border: 1px solid var(--line);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; white-space: nowrap; }
table.heat th { white-space: nowrap; padding-right: .6rem; }
table.heat tbody th { position: sticky; left: 0; background: var(--paper); }
table.heat thead th + th { text-align: right; }
.h0 { background: var(--h0); color: var(--h0-ink); }
.h1 { background: var(--h1); color: var(--h1-ink); }
.h2 { background: var(--h2); color: var(--h2-ink); }
.h3 { background: var(--h3); color: var(--h3-ink); }
.h4 { background: var(--h4); color: var(--h4-ink); }
.h5 { background: var(--h5); color: var(--h5-ink); }
tr:target { outline: 2px solid var(--bar); } td:target { outline: 2px solid var(--bar); }
summary { cursor: pointer; margin: .6rem 0; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
.bar { fill: var(--bar); } .dot { fill: var(--bar); fill-opacity: .7; }
.dot.bad { fill: var(--fail); fill-opacity: 1; }
.curve { fill: none; stroke: var(--bar); stroke-width: 1.5; }
.curve.b { stroke: var(--second); } .limit { stroke: var(--fail); stroke-dasharray: 5 3; }
rect.caught { fill: var(--pass); } rect.both { fill: var(--second); }
rect.missed { fill: var(--fail); } rect.not_for { fill: var(--line); }
rect.refused { fill: var(--bar); }
svg tspan.a { fill: var(--bar); } svg tspan.b { fill: var(--second); }
.dots { fill: none; stroke: var(--bar); stroke-opacity: .7; stroke-width: 6;
  stroke-linecap: round; }
.dots.bad { stroke: var(--fail); stroke-opacity: 1; }
@media (max-width: 30rem) { body { margin: 1rem auto; padding: 0 .75rem; }
  table.cards thead { display: none; } table.cards tr { border-bottom: 1px solid var(--line); }
  table.cards, table.cards tr, table.cards th, table.cards td { display: block; }
  table.cards th, table.cards td { border: 0; padding: .1rem 0; overflow-wrap: anywhere;
    text-align: left; white-space: normal; }
  table.cards td::before { content: attr(data-of) ": "; color: var(--faint); font-weight: 400; }
  table.cards tbody th { font-weight: 600; padding-top: .5rem; }
  table.cards tr { padding-bottom: .5rem; } }
@page { size: A4 landscape; margin: 12mm; }
h1, li { overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } table { font-size: 8px; }
  .wide { overflow: visible; } tr, svg { break-inside: avoid; } h2, h3 { break-after: avoid; }
  thead { display: table-header-group; } table { width: 100%; }
  th, td { overflow-wrap: break-word; padding: .15rem .4rem .15rem 0; }
  table.heat { width: auto; break-inside: avoid; } td svg { height: 11px; width: auto; }
  table.heat td { padding: .15rem .3rem; }
  td.short { white-space: normal; } caption span { max-width: none; width: auto; }
  .plots svg { width: 31%; } }
)css";

std::string attribute(std::string_view name, std::string_view value) {
  if (value.empty()) return "";
  return " " + std::string(name) + "=\"" + html_text(value) + "\"";
}

}  // namespace

HtmlCell words(std::string_view text, std::string_view kind) {
  return {html_text(text), std::string(kind)};
}

HtmlCell figure(std::string_view text, std::string_view kind) {
  return {html_text(text), kind.empty() ? "n" : "n " + std::string(kind)};
}

std::string link_to(std::string_view anchor, std::string_view text) {
  return "<a href=\"#" + html_text(anchor) + "\">" + html_text(text) + "</a>";
}

std::string anchor_of(std::string_view text) {
  std::string anchor(text);
  for (char& c : anchor) {
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    if (!stays) c = '-';
  }
  return anchor;
}

HtmlTable::HtmlTable(std::string caption, std::vector<std::string> titles, std::string kind)
    : caption_(std::move(caption)), kind_(std::move(kind)), titles_(std::move(titles)) {}

void HtmlTable::row(const std::vector<HtmlCell>& cells, std::string_view anchor) {
  detail::require(cells.size() == titles_.size(), "a row has a cell for each title");
  rows_ += "<tr" + attribute("id", anchor) + ">";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const HtmlCell& c = cells[i];
    rows_ += i == 0 ? "<th scope=\"row\"" : "<td";
    rows_ += attribute("class", c.kind);
    // A phone shows such a table as cards, whose lines say what they are of.
    if (i > 0 && kind_ == "cards") rows_ += attribute("data-of", titles_[i]);
    rows_ += ">" + c.html + (i == 0 ? "</th>" : "</td>");
    if (c.kind == "n" || c.kind.starts_with("n ")) numeric_.insert(i);
  }
  rows_ += "</tr>\n";
}

std::string HtmlTable::html() const {
  std::string text = "<div class=\"wide\" role=\"region\" tabindex=\"0\"" +
                     attribute("aria-label", caption_) + ">\n<table" + attribute("class", kind_) +
                     ">\n<caption><span>" + html_text(caption_) + "</span></caption>\n<thead><tr>";
  for (std::size_t i = 0; i < titles_.size(); ++i)
    text += "<th scope=\"col\"" + attribute("class", numeric_.contains(i) ? "n" : "") + ">" +
            html_text(titles_[i]) + "</th>";
  return text + "</tr></thead>\n<tbody>\n" + rows_ + "</tbody></table></div>\n";
}

std::string folded(std::string_view summary, std::string_view inner) {
  return "<details><summary>" + html_text(summary) + "</summary>\n" + std::string(inner) +
         "</details>\n";
}

std::string unfolded(std::string page) {
  constexpr std::string_view closed = "<details>", open = "<details open>";  // no text holds a '<'
  for (std::size_t at = page.find(closed); at != std::string::npos; at = page.find(closed, at + 1))
    page.replace(at, closed.size(), open);
  return page;
}

std::string section(std::string_view anchor, std::string_view title, std::string_view inner) {
  return "<section>\n<h2 id=\"" + html_text(anchor) + "\">" + html_text(title) + "</h2>\n" +
         std::string(inner) + "</section>\n";
}

std::string paragraph(std::string_view html, bool is_faint) {
  return std::string(is_faint ? "<p class=\"faint\">" : "<p>") + std::string(html) + "</p>\n";
}

std::string heat_class(double share) {
  const double root = std::sqrt(std::clamp(std::isnan(share) ? 1.0 : std::abs(share), 0.0, 1.0));
  return "h" + std::to_string(static_cast<int>(std::ceil((heat_levels - 1) * root)));
}

std::string percent(double share) {
  if (!std::isfinite(share)) return legible(100 * share) + "%";
  const double size = 100 * std::abs(share);
  if (size == 0) return "0%";
  if (size < 0.01) return share < 0 ? ">-0.01%" : "<0.01%";
  return fmt::format("{:.{}f}%", 100 * share, size < 10 ? 2 : 1);
}

std::string_view report_style() { return style; }

}  // namespace opbound::report
