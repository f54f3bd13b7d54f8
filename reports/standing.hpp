// How good the end of a check is: its verdict, and whether the suite allows that one by name.
#pragma once

#include "reports/record.hpp"

namespace opbound {

inline bool is_allowed(const Record& r) {
  return r.verdict == Verdict::vacuous && !r.allowed_vacuous.empty();
}

/// Lower is worse. What is allowed by name ranks between skipped and within.
inline int standing(const Record& r) {
  if (is_allowed(r)) return 2 * static_cast<int>(Verdict::skipped) + 1;
  return 2 * static_cast<int>(r.verdict);
}

inline bool makes_run_fail(const Record& r) {
  return r.verdict < Verdict::skipped && !is_allowed(r);
}

}  // namespace opbound
