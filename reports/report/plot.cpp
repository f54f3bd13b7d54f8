#include "reports/report/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "reports/page.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

constexpr double width = 328, height = 200;  // of a plot's frame, in pixels: three in a row
constexpr long cell = 3;                     // points nearer than this cover each other
constexpr double left = 56, top = 24, right = 16, below = 42;

std::string decade_text(int power) {
  return power < -3 ? "1e" + std::to_string(power) : svg::power_text(power);
}

/// Values to pixels along one axis.
class Scale {
 public:
  Scale(const PlotAxis& axis, double pixels) : axis_(axis), pixels_(pixels) {}

  bool shows(double v) const { return std::isfinite(v) && (!axis_.is_logarithmic || v > 0); }
  void take(double v) {
    if (!shows(v)) return;
    least_ = is_empty_ ? v : std::min(least_, v);
    most_ = is_empty_ ? v : std::max(most_, v);
    is_empty_ = false;
  }
  bool is_empty() const { return is_empty_; }

  /// Ends of the axis, once all values were taken: whole decades, or whole ticks.
  void settle() {
    if (axis_.is_logarithmic) {
      low_ = std::floor(std::log10(least_));
      high_ = std::max(low_ + 1, std::ceil(std::log10(most_)));
      step_ = std::max(1.0, std::ceil((high_ - low_) / most_ticks));
      return;
    }
    const double range = most_ > least_ ? most_ - least_ : std::max(1.0, std::abs(most_));
    step_ = std::pow(10, std::floor(std::log10(range / most_ticks)));
    for (const double factor : {2.0, 2.5, 2.0})  // 2, 5, 10 times the power of ten
      if (range / step_ > most_ticks) step_ *= factor;
    low_ = step_ * std::floor(least_ / step_);
    high_ = std::max(low_ + step_, step_ * std::ceil(most_ / step_));
  }

  double place(double v) const {
    const double at = axis_.is_logarithmic ? std::log10(v) : v;
    return pixels_ * (at - low_) / (high_ - low_);
  }
  template <class Take>
  void for_each_tick(Take take) const {
    for (int i = 0; low_ + i * step_ <= high_ + step_ / 1024; ++i) {
      const double at = low_ + i * step_;
      take(pixels_ * (at - low_) / (high_ - low_),
           axis_.is_logarithmic ? decade_text(static_cast<int>(at))
                                : shortest(std::round(at / step_ * 1024) / 1024 * step_));
      if (!axis_.is_logarithmic || high_ - low_ > 2 || at + step_ > high_) continue;
      for (const double factor : {2.0, 5.0})  // a decade or two alone have too few marks
        take(pixels_ * (at + std::log10(factor) - low_) / (high_ - low_),
             shortest(std::stod(legible(factor * std::pow(10, at)))));
    }
  }

 private:
  static constexpr double most_ticks = 6;
  PlotAxis axis_;
  double pixels_;
  double least_ = 0, most_ = 1, low_ = 0, high_ = 1, step_ = 1;
  bool is_empty_ = true;
};

/// Digits that a tick needs: the steps are 1, 2 or 5 times a power of ten.
std::string tick_text(const std::string& text) {
  return text.size() > 8 ? legible(std::stod(text)) : text;
}

std::string frame(const Scale& x, const Scale& y, const PlotAxis& x_axis, const PlotAxis& y_axis) {
  std::string text = "<rect class=\"frame\" x=\"" + svg::number(left) + "\" y=\"" +
                     svg::number(top) + "\" width=\"" + svg::number(width) + "\" height=\"" +
                     svg::number(height) + "\"/>\n";
  x.for_each_tick([&](double at, const std::string& words) {
    text += svg::line("grid", left + at, top, left + at, top + height) +
            svg::label(left + at, top + height + 16, "middle", tick_text(words));
  });
  y.for_each_tick([&](double at, const std::string& words) {
    text += svg::line("grid", left, top + height - at, left + width, top + height - at) +
            svg::label(left - 6, top + height - at + 4, "end", tick_text(words));
  });
  if (y_axis.limit) {
    const double at = top + height - y.place(*y_axis.limit);
    text += svg::line("limit", left, at, left + width, at) +
            svg::label(left + width, at - 4, "end", "bound");
  }
  return text + svg::label(left + width / 2, top + height + 34, "middle", x_axis.title) +
         svg::label(left, 14, "start", y_axis.title);
}

std::string picture(const std::string& what, const std::string& inner) {
  return svg::picture(left + width + right, top + height + below, what, inner);
}

/// A path through the lowest and the highest value of each column of pixels.
std::string path_of(const PlotCurve& curve, const Scale& x, const Scale& y) {
  std::map<long, std::pair<double, double>> columns;
  for (const auto& [at, value] : curve.points) {
    if (!x.shows(at) || !y.shows(value)) continue;
    const double place = y.place(value);
    const auto [column, is_new] =
        columns.try_emplace(std::lround(x.place(at)), std::pair(place, place));
    if (is_new) continue;
    column->second.first = std::min(column->second.first, place);
    column->second.second = std::max(column->second.second, place);
  }
  std::string path;
  const auto add = [&](long column, double place) {
    path += (path.empty() ? "M" : "L") + svg::number(left + static_cast<double>(column)) + " " +
            svg::number(top + height - place);
  };
  for (const auto& [column, places] : columns) {
    add(column, places.first);
    if (places.second > places.first) add(column, places.second);
  }
  return path;
}

/// The curves' names in their colours, in one line above the frame, the first one first.
std::string names_of(const std::vector<PlotCurve>& curves) {
  std::string text = "<text x=\"" + svg::number(left + width) + "\" y=\"14\" text-anchor=\"end\">";
  for (const PlotCurve& curve : curves)
    text += "<tspan class=\"" + (curve.kind.empty() ? "a" : curve.kind) + "\" dx=\"10\">" +
            html_text(curve.name) + "</tspan>";
  return text + "</text>\n";
}

}  // namespace

std::string histogram_plot(const UlpHistogram::Counts& counts) {
  std::size_t entries = counts.size();
  while (entries > 0 && counts[entries - 1] == 0) --entries;
  if (entries == 0) return "";
  constexpr double bar = 4, gap = 1, high = 22;
  const double largest =
      std::log2(1 + static_cast<double>(*std::max_element(counts.begin(), counts.end())));
  std::string path;
  for (std::size_t i = 0; i < entries; ++i) {
    if (counts[i] == 0) continue;
    const double h = high * std::log2(1 + static_cast<double>(counts[i])) / largest;
    path += "M" + svg::number(static_cast<double>(i) * (bar + gap)) + " " + svg::number(high) +
            "h" + svg::number(bar) + "v" + svg::number(-h) + "h-" + svg::number(bar) + "z";
  }
  const std::string last = entries == 1   ? "0"
                           : entries == 2 ? "0.5"
                                          : legible(std::ldexp(1.0, static_cast<int>(entries) - 3));
  return svg::picture(
      static_cast<double>(entries) * (bar + gap), high,
      "elements by error: 0, up to 0.5, 1, 2, ... " + last + " ulp; heights are logarithms",
      "<path class=\"bar\" d=\"" + path + "\"/>");
}

std::string scatter_plot(const std::string& what, const PlotAxis& x_axis, const PlotAxis& y_axis,
                         const std::vector<PlotPoint>& points) {
  Scale x(x_axis, width), y(y_axis, height);
  for (const PlotPoint& p : points) {
    if (!x.shows(p.x) || !y.shows(p.y)) continue;
    x.take(p.x);
    y.take(p.y);
  }
  if (x.is_empty()) return "";
  if (y_axis.limit) y.take(*y_axis.limit);
  x.settle();
  y.settle();
  std::set<std::pair<long, long>> taken;
  std::array<std::string, 2> dots;  // what leads nowhere, in one path each: good, bad
  std::string circles;
  for (const auto& [bad, leads] :
       {std::pair(true, true), {true, false}, {false, true}, {false, false}})
    for (const PlotPoint& p : points) {
      if (p.is_bad != bad || p.anchor.empty() == leads || !x.shows(p.x) || !y.shows(p.y)) continue;
      const std::pair place{std::lround(x.place(p.x)), std::lround(y.place(p.y))};
      if (!taken.insert({place.first / cell, place.second / cell}).second) continue;
      const std::string cx = svg::number(left + static_cast<double>(place.first)),
                        cy = svg::number(top + height - static_cast<double>(place.second));
      if (!leads)
        dots[bad ? 1 : 0] += "M" + cx + " " + cy + "h0";
      else
        circles += "<a href=\"#" + html_text(p.anchor) + "\"><circle class=\"dot" +
                   (bad ? " bad" : "") + "\" cx=\"" + cx + "\" cy=\"" + cy + "\" r=\"3\"><title>" +
                   html_text(p.title) + "</title></circle></a>\n";
    }
  std::string inner = frame(x, y, x_axis, y_axis);
  for (const bool bad : {false, true})
    if (const std::string& path = dots[bad ? 1 : 0]; !path.empty())
      inner += "<path class=\"dots" + std::string(bad ? " bad" : "") + "\" d=\"" + path + "\"/>\n";
  return picture(what, inner + circles);
}

std::string curve_plot(const std::string& what, const PlotAxis& x_axis, const PlotAxis& y_axis,
                       const std::vector<PlotCurve>& curves) {
  Scale x(x_axis, width), y(y_axis, height);
  for (const PlotCurve& curve : curves)
    for (const auto& [at, value] : curve.points) {
      if (!x.shows(at) || !y.shows(value)) continue;
      x.take(at);
      y.take(value);
    }
  if (x.is_empty()) return "";
  x.settle();
  y.settle();
  std::string inner = frame(x, y, x_axis, y_axis);
  for (const PlotCurve& curve : curves) {
    const std::string path = path_of(curve, x, y);
    const std::string of = curve.kind.empty() ? "" : " " + curve.kind;
    inner += "<path class=\"curve" + of + "\" d=\"" + path + "\"/>\n";
  }
  return picture(what, inner + (curves.size() < 2 ? "" : names_of(curves)));
}

}  // namespace opbound::report
