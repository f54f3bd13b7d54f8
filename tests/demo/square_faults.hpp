// Planted faults of the demonstration op.
#pragma once

#include "ops/square.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

inline std::vector<Fault> square() {
  const std::vector<std::pair<std::string_view, std::string_view>> inputs{{"x", "normal"}};
  const auto with = [&](std::string_view name, std::string_view what, auto f) {
    return Fault{"square", name, what, {}, "fp32", {1000}, inputs, {}, elementwise(0, 1, f)};
  };
  return {with("doubled", "x + x", [](float x, std::int64_t) { return x + x; }),
          with("cubed", "x^3", [](float x, std::int64_t) { return x * x * x; }),
          with("in_bf16", "rounded to bf16",
               [](float x, std::int64_t) { return static_cast<float>(round_to(bf16, x * x)); }),
          with("magnitude", "|x|", [](float x, std::int64_t) { return abs(x); })};
}

}  // namespace opbound::faults
