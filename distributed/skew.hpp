// How far apart ranks came to a collective, told as time: it is no error.
#pragma once

#include <span>
#include <string>

#include "distributed/engine.hpp"

namespace opbound {

/// A line from the milliseconds that the last run took on each local rank. Clocks of machines are
/// not compared: who came first waited longest, who came last hardly at all. Every process calls
/// it.
std::string skew_text(Engine& engine, std::span<const double> ms_of_local_ranks);

}  // namespace opbound
