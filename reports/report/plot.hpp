// The plots of a report, as SVG that says in words what it shows.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bounds/ulp_histogram.hpp"

namespace opbound::report {

/// How many elements have which error; heights are logarithms. Empty where nothing was counted.
std::string histogram_plot(const UlpHistogram::Counts& counts);

struct PlotPoint {
  double x = 0, y = 0;
  std::string title;   ///< what it stands for
  std::string anchor;  ///< the place of the page that has its record; empty: none
  bool is_bad = false;
};

/// An axis from its smallest to its largest value. On a logarithmic one 0 and less, and what is not
/// finite, have no place.
struct PlotAxis {
  std::string title;
  bool is_logarithmic = false;
  std::optional<double> limit{};  ///< a line across, of a vertical axis
};

/// Points that lead to their records; of those that would cover each other the first is drawn, bad
/// ones before others, and those that lead somewhere before those that do not. `what` is told to
/// those who do not see it. Empty without a point to show.
std::string scatter_plot(const std::string& what, const PlotAxis& x, const PlotAxis& y,
                         const std::vector<PlotPoint>& points);

struct PlotCurve {
  std::string name;
  std::string kind;  ///< a class of the style: "", "b", "limit"
  std::vector<std::pair<double, double>> points;
};

/// Curves on the same axes; of all points that fall on one pixel's column the lowest and the
/// highest are drawn. Empty without a point to show.
std::string curve_plot(const std::string& what, const PlotAxis& x, const PlotAxis& y,
                       const std::vector<PlotCurve>& curves);

}  // namespace opbound::report
