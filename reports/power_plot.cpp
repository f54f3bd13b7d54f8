#include <array>
#include <cmath>

#include "reports/page.hpp"
#include "reports/power.hpp"

namespace opbound {
namespace {

constexpr double left = 150, bar = 420, gap = 40, alarm = 160, height = 18, step = 30, top = 46;

constexpr std::string_view style =
    "<style>text{font:13px sans-serif;fill:#333}.caught{fill:#2f855a}.both{fill:#d69e2e}"
    ".missed{fill:#c53030}.not_for{fill:#cbd5e0}.refused{fill:#6b46c1}.grid{stroke:#ddd}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.not_for{fill:#4a5568}"
    ".grid{stroke:#444}}</style>\n";

std::string box(std::string_view kind, double x, double y, double width, const std::string& title) {
  if (width <= 0) return "";
  return "<rect class=\"" + std::string(kind) + "\" x=\"" + svg::number(x) + "\" y=\"" +
         svg::number(y) + "\" width=\"" + svg::number(width) + "\" height=\"" +
         svg::number(height) + "\"><title>" + html_text(title) + "</title></rect>\n";
}

/// What each colour means, above the bars.
std::string legend() {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> entries{
      {{"caught", "caught"}, {"both", "refuses both"}, {"missed", "missed"}, {"not_for", "n/a"}}};
  std::string text;
  double x = left;
  for (const auto& [kind, words] : entries) {
    text += box(kind, x, 8, height, std::string(words)) +
            svg::label(x + height + 5, 22, "start", words);
    x += 105;
  }
  return text + svg::label(left + bar + gap, 16, "start", "right kernels refused,") +
         svg::label(left + bar + gap, 32, "start", "ordinary inputs");
}

}  // namespace

std::string power_plot(const PowerTable& table) {
  constexpr std::array<std::string_view, 4> kinds{"caught", "both", "missed", "not_for"};
  const auto totals = detail::totals_of(table);
  std::string inner = std::string(style) + legend();
  double y = top;
  for (const detail::RuleTotals& r : totals) {
    inner += svg::label(left - 8, y + 14, "end", r.rule);
    double x = left;
    for (std::size_t d = 0; d < kinds.size(); ++d) {
      const double width = table.rows.empty() ? 0
                                              : bar * static_cast<double>(r.rows[d]) /
                                                    static_cast<double>(table.rows.size());
      inner +=
          box(kinds[d], x, y, width,
              r.rule + ": " + std::string(detection_names[d]) + " " + std::to_string(r.rows[d]));
      x += width;
    }
    const double refused =
        r.cases[0] == 0 ? 0 : static_cast<double>(r.flagged[0]) / static_cast<double>(r.cases[0]);
    const std::string told =
        r.cases[0] == 0 ? "n/a"
                        : std::to_string(r.flagged[0]) + " of " + std::to_string(r.cases[0]);
    inner += svg::line("grid", left + bar + gap, y, left + bar + gap, y + height) +
             box("refused", left + bar + gap, y, alarm * refused, r.rule + ": " + told) +
             svg::label(left + bar + gap + alarm * refused + 6, y + 14, "start", told);
    y += step;
  }
  std::string picture = svg::picture(left + bar + gap + alarm + 130, y + 6,
                                     "faults caught and missed, right kernels refused", inner);
  picture.insert(4, " xmlns=\"http://www.w3.org/2000/svg\"");  // it stands alone in a file
  return picture;
}

}  // namespace opbound
