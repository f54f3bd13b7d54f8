// Public cases of unscale.
#pragma once

#include <limits>

#include "ops/unscale.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {

inline std::vector<PublicCase> unscale() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr auto forth = Direction::forward;
  const CaseInput scale{"scale", "", {65536}};
  /// unscaled = g / scale^k.
  const auto divided = [](int times) {
    return [times](const Op& op, const Call& call) {
      op.run(call);
      const Judged t(op, call);
      for (std::int64_t i = 0; i < t("g").count(); ++i) {
        float g = t.get("g", i);
        for (int k = 0; k < times; ++k) g /= t.get("scale", 0);
        t.put("unscaled", i, g);
      }
    };
  };
  return {
      shown("SCAL-01", "divided by the scale twice, in unscale_ and in the fused step", "unscale",
            forth, "fp32", {4, 1}, {{"g", "", {131072}}, scale}, {}, {{"unscaled", {"=2", "=2"}}},
            divided(2)),
      shown("SCAL-02", "an infinite gradient that is not reported", "unscale", forth, "fp32",
            {3, 1}, {{"g", "", {1, inf, 1}}, scale}, {}, {},
            [](const Op& op, const Call& call) {
              op.run(call);
              const TensorView& found = Judged(op, call)("found_inf");
              store_index(found.element, found.data, 0, 0);
            }),
      shown("SCAL-05", "a loss scale left in the gradients", "unscale", forth, "bf16:fp32:bf16",
            {8, 1}, {{"g", "normal"}, scale}, {}, {}, divided(0)),
  };
}

}  // namespace opbound::cases
