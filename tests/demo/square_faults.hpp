// Planted faults of the demonstration op.
#pragma once

#include "ops/square.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

inline std::vector<Fault> square() {
  const Inputs inputs{{"x", "normal"}};
  const auto with = [&](std::string_view name, std::string_view what, auto f) {
    return planted("square", name, what, {}, "fp32", {1000}, inputs, {},
                   elementwise("y", {"x"}, f, [](float x) { return x * x; }));
  };
  return {with("doubled", "x + x", [](float x) { return x + x; }),
          with("cubed", "x^3", [](float x) { return x * x * x; }),
          with("in_bf16", "rounded to bf16",
               [](float x) { return static_cast<float>(round_to(bf16, x * x)); }),
          with("magnitude", "|x|", [](float x) { return abs(x); })};
}

}  // namespace opbound::faults
