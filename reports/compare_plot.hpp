// The plots of a comparison's page, as SVG.
#pragma once

#include <string>
#include <string_view>

#include "reports/compare_table.hpp"

namespace opbound::detail {

/// Old against new largest error of every check, on logarithmic axes.
std::string scatter_of(const Comparison& comparison);

/// How many elements have which error, old above the line and new below it; heights are logarithms.
/// Empty without histograms.
std::string histograms_of(const CompareRow& row);

/// The attribute of an element that is drawn in a change's colour.
std::string colour_style(Change change);

}  // namespace opbound::detail
