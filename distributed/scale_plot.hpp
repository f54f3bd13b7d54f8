// Error and bound against the number of ranks, as a page of plots.
#pragma once

#include <string>
#include <vector>

#include "distributed/scale.hpp"

namespace opbound {

/// A plot for each order of each of these, all on the same axes.
struct ScalePlots {
  std::string title;  ///< "bf16, 1024 elements, normal"
  std::vector<ScaleRow> rows;
};

/// Ranks to the right and units of u sum |x| upwards, both as logarithms; an error of 0 is no
/// point.
std::string scale_page(const std::vector<ScalePlots>& all);

}  // namespace opbound
