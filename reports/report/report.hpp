// One page for a run or a pair of runs: what was checked, what deviates, where it comes from.
#pragma once

#include <string>
#include <vector>

#include "reports/report/inputs.hpp"
#include "reports/report/suggestions.hpp"

namespace opbound::report {

struct PageOptions {
  std::vector<Tried> tried;   ///< what try_changes gave
  bool asked_to_try = false;  ///< then it is said that nothing could be
  /// For paper nothing is folded away but single records, which only a page can lead to.
  bool is_for_paper = false;
};

/// A page that stands alone, without scripts; equal inputs give equal bytes. Every part is there;
/// one without its files says which command makes them. Throws InputError for traces that cannot be
/// read or compared.
std::string report_page(const Inputs& inputs, const PageOptions& options);

}  // namespace opbound::report
