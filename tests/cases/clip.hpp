// Public cases of clip.
#pragma once

#include "ops/clip.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {

inline std::vector<PublicCase> clip() {
  return {
      shown("CLIP-02", "300^2 in fp16 is infinite, so that the coefficient is 0", "clip",
            Direction::forward, "fp16:fp32:fp16", {1, 1}, {{"g", "", {300}}, {"norm", "", {300}}},
            {}, {{"clipped", {"1.00000"}}},
            [](const Op& op, const Call& call) {
              op.run(call);
              const Judged t(op, call);
              const float norm = sqrt(in_fp16(t.get("g", 0) * t.get("g", 0)));
              const float coefficient = min(1.0F, 1 / (norm + 1e-6F));
              t.put("coefficient", 0, coefficient);
              t.put("clipped", 0, coefficient * t.get("g", 0));
            }),
  };
}

}  // namespace opbound::cases
