#include "distributed/scale_plot.hpp"

#include <algorithm>
#include <cmath>

#include "reports/page.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

constexpr double width = 300, height = 200;  // of a plot's frame, in pixels
constexpr double left = 44, top = 24, below = 40;

constexpr std::string_view style = R"css(
:root { --bound: #d97706; --error: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --bound: #fbbf24; --error: #7aa2ff; } }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
svg text.bound { fill: var(--bound); } svg text.error { fill: var(--error); }
path { fill: none; stroke-width: 2; } path.bound { stroke: var(--bound); }
path.error { stroke: var(--error); }
circle.bound { fill: var(--bound); } circle.error { fill: var(--error); }
)css";

/// The axes of all plots of a precision.
class Axes {
 public:
  explicit Axes(const std::vector<ScaleRow>& rows) {
    double least = 1, most = 1;
    for (const ScaleRow& r : rows) {
      most_ranks_ = std::max(most_ranks_, static_cast<double>(r.ranks));
      for (const double y : {r.error, r.bound}) {
        if (!is_shown(y)) continue;
        least = std::min(least, y);
        most = std::max(most, y);
      }
    }
    first_ = static_cast<int>(std::floor(std::log10(least)));
    last_ = std::max(first_ + 1, static_cast<int>(std::ceil(std::log10(most))));
  }

  static bool is_shown(double y) { return y > 0 && std::isfinite(y); }
  double x(double ranks) const { return left + width * std::log(ranks) / std::log(most_ranks_); }
  double y(double value) const {
    return top + height * (last_ - std::log10(value)) / (last_ - first_);
  }

  std::string drawn() const {
    std::string text = "<rect class=\"frame\" x=\"" + svg::number(left) + "\" y=\"" +
                       svg::number(top) + "\" width=\"" + svg::number(width) + "\" height=\"" +
                       svg::number(height) + "\"/>\n";
    for (int power = first_; power <= last_; ++power) {
      const double at = y(std::pow(10, power));
      text += svg::line("grid", left, at, left + width, at) +
              svg::label(left - 6, at + 4, "end", svg::power_text(power));
    }
    for (double ranks = 1; ranks <= most_ranks_; ranks *= 10)
      text += svg::line("grid", x(ranks), top, x(ranks), top + height) +
              svg::label(x(ranks), top + height + 16, "middle", shortest(ranks));
    return text + svg::label(left + width / 2, top + height + 32, "middle", "ranks");
  }

 private:
  double most_ranks_ = 2;
  int first_ = 0, last_ = 1;
};

/// One order's errors or bounds: a path through its points, which say what they are.
std::string curve(const Axes& axes, const std::vector<const ScaleRow*>& rows, std::string_view kind,
                  double ScaleRow::*value) {
  std::string path, points;
  for (const ScaleRow* r : rows) {
    const double y = r->*value;
    if (!Axes::is_shown(y)) continue;
    const std::string place = svg::number(axes.x(r->ranks)) + " " + svg::number(axes.y(y));
    path += (path.empty() ? "M" : "L") + place;
    points +=
        "<circle class=\"" + std::string(kind) + "\" cx=\"" + svg::number(axes.x(r->ranks)) +
        "\" cy=\"" + svg::number(axes.y(y)) + "\" r=\"3\"><title>" +
        html_text(std::to_string(r->ranks) + " ranks: " + std::string(kind) + " " + legible(y)) +
        "</title></circle>\n";
  }
  return "<path class=\"" + std::string(kind) + "\" d=\"" + path + "\"/>\n" + points;
}

std::string plot(const Axes& axes, const std::vector<const ScaleRow*>& rows) {
  const std::string name(name_of_order(rows.front()->order));
  std::string inner = axes.drawn() + svg::label(left, 14, "start", name);
  inner += "<text class=\"error\" x=\"" + svg::number(left + width - 48) +
           "\" y=\"14\" text-anchor=\"end\">error</text>\n<text class=\"bound\" x=\"" +
           svg::number(left + width) + "\" y=\"14\" text-anchor=\"end\">bound</text>\n";
  inner +=
      curve(axes, rows, "bound", &ScaleRow::bound) + curve(axes, rows, "error", &ScaleRow::error);
  return svg::picture(left + width + 20, top + height + below,
                      name + ": error and bound against the number of ranks", inner);
}

}  // namespace

std::string scale_page(const std::vector<ScalePlots>& all) {
  std::string text = page_head("Sums over ranks", style) +
                     "<p class=\"faint\">The largest error of a sum and its largest bound, in "
                     "units of u sum |x|, u being that of the format partial sums are stored "
                     "in.</p>\n";
  for (const ScalePlots& plots : all) {
    const Axes axes(plots.rows);
    text += "<h2>" + html_text(plots.title) + "</h2>\n<div class=\"plots\">\n";
    for (const int order : all_orders()) {
      std::vector<const ScaleRow*> rows;
      for (const ScaleRow& r : plots.rows)
        if (r.order == order) rows.push_back(&r);
      if (!rows.empty()) text += plot(axes, rows);
    }
    text += "</div>\n";
  }
  return text + page_end();
}

}  // namespace opbound
