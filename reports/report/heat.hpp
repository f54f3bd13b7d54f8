// Where a run's error comes from: maps of layers by ops and of layers by steps, each cell of which
// leads to what it was made of.
#pragma once

#include <string>

#include "reports/report/inputs.hpp"
#include "reports/report/traces.hpp"

namespace opbound::report {

/// Maps of contributions, from attributions; below them the classes, one row each. Says how to get
/// them where there are none.
///
/// A cell's share of the loss's error is the sum of the squares of its classes' contributions over
/// that of all classes: contributions have signs and cancel, their squares add up to the whole.
std::string attribution_section(const Inputs& inputs);

/// Distances of a pair's gradients by layer and step, and what differs first.
std::string distance_section(const Traces& traces);

}  // namespace opbound::report
