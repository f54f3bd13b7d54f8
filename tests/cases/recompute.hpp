// Public cases of recompute.
#pragma once

#include "ops/recompute.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {

inline std::vector<PublicCase> recompute() {
  constexpr auto full = Direction::backward_full;
  const std::vector<CaseInput> rows{{"x", "normal"}, {"gain", "normal(mean=1)"}, {"dy", "normal"}};
  const Attributes in_fp32{{"stored_format", std::string("fp32")}};
  return {
      shown("CKPT-07", "a weight cast before the optimiser's step is used after it", "recompute",
            full, "bf16:fp32:bf16", {16, 8}, rows, {}, {},
            [](const Op& op, const Call& call) {
              Call other = call;
              TensorView& gain = other.backward[opbound::recompute::backward::gain];
              Tensor stale(gain.element, {gain.count()});
              for (std::int64_t i = 0; i < gain.count(); ++i) stale.set(i, gain.at(i) - 0.01);
              gain = stale.view();
              op.run(other);
            }),
      shown("CKPT-08", "run again outside autocast's format: the block in bf16, not fp32",
            "recompute", full, "fp32", {16, 8}, rows, in_fp32, {},
            [](const Op& op, const Call& call) {
              Call other = call;
              other.compute = bf16;
              op.run(other);
            }),
  };
}

}  // namespace opbound::cases
