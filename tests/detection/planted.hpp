// Every planted fault and every public case that a kernel shows, as rows of the detection table.
// Further kinds of faults are further functions like the three here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/power.hpp"
#include "tests/detection/observe.hpp"

namespace opbound::detection {

struct Planted {
  std::string family;  ///< "op", "case", "collective"
  std::string op, name, what;
  /// The faulty kernel's run, or (false) that of the same kernel without the fault.
  std::function<Observation(bool is_planted)> run;
};

std::vector<Planted> planted_in_ops();
std::vector<Planted> planted_in_collectives();
std::vector<Planted> planted_in_cases();
std::vector<Planted> all_planted();

/// Runs both kernels and asks every rule.
PowerRow row_of(const Planted& planted);

/// What a rule says of all of a run's outputs: refused if one of them is.
struct WholeAnswer : RivalAnswer {
  std::uint64_t elements = 0;  ///< of the outputs that it speaks of
};
WholeAnswer answer_of(const Rival& rival, const Observation& seen);

}  // namespace opbound::detection
