#include "reports/compare_plot.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "reports/page.hpp"
#include "reports/text.hpp"

namespace opbound::detail {
namespace {

using svg::label, svg::line, svg::number;

// ---- the scatter plot, in pixels

constexpr double side = 520;   // of the square of positive, finite errors
constexpr double band = 24;    // beside it: errors of 0 (or nearly) and of infinity
constexpr double margin = 60;  // for the axes' numbers
// Errors beyond these edges lie in the bands, so that the rest is not pressed into a corner.
constexpr double smallest_ulp = 1e-3, largest_ulp = 1e9;

/// Errors to places: [0, band) is 0 or nearly, then `side` of decades, then what is beyond them.
class Scale {
 public:
  explicit Scale(const Comparison& comparison) {
    double largest = 10;
    for (const ComparedCheck& c : comparison.checks) {
      if (!is_compared(c.change)) continue;
      for (const Record* r : {c.before.front(), c.after.front()})
        if (r->error_ulp_max && *r->error_ulp_max <= largest_ulp)
          largest = std::max(largest, *r->error_ulp_max);
    }
    last_ = static_cast<int>(std::ceil(std::log10(largest)));
  }

  double place(double error) const {
    if (error < smallest_ulp) return band / 2;
    if (!(error <= std::pow(10, last_))) return side + 1.5 * band;  // NaN too
    return band + side * (std::log10(error) - first) / (last_ - first);
  }
  double end() const { return side + 2 * band; }
  template <class Take>
  void for_each_tick(Take take) const {
    for (int power = first + 1; power < last_; ++power) take(power);
  }

 private:
  static constexpr int first = -3;  // smallest_ulp
  int last_ = 1;
};

/// Frame, grid, numbers and the diagonal; y grows downwards.
std::string axes(const Scale& scale) {
  const double end = scale.end();
  const auto x_of = [&](double place) { return margin + place; };
  const auto y_of = [&](double place) { return end - place; };
  std::string text = "<rect class=\"frame\" x=\"" + number(margin) + "\" y=\"0\" width=\"" +
                     number(end) + "\" height=\"" + number(end) + "\"/>\n";
  const auto tick = [&](double place, const std::string& words) {
    text += label(x_of(place), end + 18, "middle", words) +
            label(margin - 6, y_of(place) + 4, "end", words);
  };
  for (const double at : {band, end - band})
    text += line("grid", x_of(at), 0, x_of(at), end) +
            line("grid", margin, y_of(at), x_of(end), y_of(at));
  tick(band / 2, "0");
  tick(end - band / 2, "more");
  scale.for_each_tick([&](int power) {
    const double at = scale.place(std::pow(10, power));
    text += line("grid", x_of(at), 0, x_of(at), end) +
            line("grid", margin, y_of(at), x_of(end), y_of(at));
    tick(at, svg::power_text(power));
  });
  return text + line("diagonal", x_of(0), y_of(0), x_of(end), y_of(end)) +
         label(x_of(end / 2), end + 38, "middle", "old, ulp") + "<g transform=\"rotate(-90)\">" +
         label(-end / 2, 12, "middle", "new, ulp") + "</g>\n";
}

std::string point_title(const ComparedCheck& c, std::size_t count) {
  const Record& r = c.shown();
  std::string text = r.op + " " + r.direction + " " + r.precision + " " + place_text(r, "", "x") +
                     ": " + change_text(c.before.front()->error_ulp_max, r.error_ulp_max, "->") +
                     " ulp, " + std::string(name_of(c.change));
  if (count > 1) text += " (one of " + std::to_string(count) + ")";
  return text;
}

}  // namespace

std::string colour_style(Change change) {
  std::string name(name_of(change));
  std::ranges::replace(name, ' ', '-');
  return "style=\"--change: var(--" + name + ")\"";
}

std::string scatter_of(const Comparison& comparison) {
  const Scale scale(comparison);
  struct Point {
    const ComparedCheck* check = nullptr;
    std::size_t count = 0;
  };
  // What is worse is drawn later, over the rest.
  std::map<std::tuple<int, double, double>, Point> points;
  for (const ComparedCheck& c : comparison.checks) {
    if (!is_compared(c.change)) continue;
    const auto before = c.before.front()->error_ulp_max, after = c.after.front()->error_ulp_max;
    if (!before || !after) continue;
    Point& point = points[{-static_cast<int>(c.change), std::round(scale.place(*before)),
                           std::round(scale.place(*after))}];
    if (point.count++ == 0) point.check = &c;
  }
  const double width = margin + scale.end() + 8, height = scale.end() + margin;
  std::string text = axes(scale);
  for (const auto& [place, point] : points)
    text += "<circle " + colour_style(point.check->change) + " cx=\"" +
            number(margin + std::get<1>(place)) + "\" cy=\"" +
            number(scale.end() - std::get<2>(place)) + "\" r=\"4\"><title>" +
            html_text(point_title(*point.check, point.count)) + "</title></circle>\n";
  return svg::picture(width, height, "old against new largest error", text);
}

std::string histograms_of(const CompareRow& row) {
  UlpHistogram::Counts before{}, after{};
  std::size_t entries = 0;
  for (const ComparedCheck* c : row.checks) {
    if (!is_compared(c->change)) continue;
    const auto add = [&](const Record& r, UlpHistogram::Counts& to) {
      const auto& counts = r.ulp_histogram.counts;
      entries = std::max(entries, counts.size());
      for (std::size_t i = 0; i < counts.size(); ++i) to[i] += counts[i];
    };
    add(*c->before.front(), before);
    add(*c->after.front(), after);
  }
  if (entries == 0) return "";
  constexpr double bar = 4, gap = 1, half = 18;
  const auto most_elements =
      std::max(*std::ranges::max_element(before), *std::ranges::max_element(after));
  const double largest = std::log2(1 + static_cast<double>(most_elements));
  const auto bars = [&](const UlpHistogram::Counts& counts, std::string_view kind, double sign) {
    std::string path;
    for (std::size_t i = 0; i < entries; ++i) {
      if (counts[i] == 0) continue;
      const double height = half * std::log2(1 + static_cast<double>(counts[i])) / largest;
      path += "M" + number(static_cast<double>(i) * (bar + gap)) + " " + number(half) + "h" +
              number(bar) + "v" + number(-sign * height) + "h-" + number(bar) + "z";
    }
    return "<path class=\"" + std::string(kind) + "\" d=\"" + path + "\"/>";
  };
  const std::size_t last = entries - 1;
  const std::string most =
      last < 2 ? (last == 0 ? "0" : "0.5") : legible(std::ldexp(1.0, static_cast<int>(last) - 2));
  const std::string width = number(static_cast<double>(entries) * (bar + gap));
  return "<svg width=\"" + width + "\" height=\"" + number(2 * half) +
         "\" role=\"img\"><title>elements by error: 0, up to 0.5, 1, 2, ... " + most +
         " ulp; heights are logarithms</title>" + bars(before, "old", 1) + bars(after, "new", -1) +
         "</svg>";
}

}  // namespace opbound::detail
