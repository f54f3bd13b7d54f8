// Public cases of logsumexp.
#pragma once

#include <limits>

#include "ops/logsumexp.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {

inline std::vector<PublicCase> logsumexp() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<CaseInput> nothing{{"x", "", {-inf, -inf}}, {"dy", "", {1}}};
  return {
      shown("CE-10", "log sum exp of nothing but -infinity", "logsumexp", Direction::forward,
            "fp32", {2, 2}, nothing, {}, {{"y", {"-inf", "-inf"}}}),
      shown("CE-10", "its gradient by the formula: NaN, not 0", "logsumexp",
            Direction::backward_full, "fp32", {2, 2}, nothing, {},
            {{"dx", {"nan", "nan", "nan", "nan"}}}),
  };
}

}  // namespace opbound::cases
