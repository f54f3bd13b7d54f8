// An own kernel, run again on the host: the same bits, or something went wrong the first time.
#pragma once

#include <cstdint>
#include <vector>

#include "suites/suite.hpp"

namespace opbound::trace {

/// Of one output: how many elements have other bits, NaN being one.
struct Rerun {
  int tensor = 0;
  std::int64_t checked = 0, different = 0;
  std::int64_t first = -1;  ///< that is different, row-major
  double got = 0, expected = 0;
};

/// `call`: on host memory, with the outputs that it gave, which are left alone.
std::vector<Rerun> rerun_own(const CaseSpec& spec, const Call& call);

}  // namespace opbound::trace
