// Public cases of embedding.
#pragma once

#include "ops/embedding.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {

inline std::vector<PublicCase> embedding() {
  /// Gradients added to the rows of the table one by one, each sum stored in bf16.
  const auto added_in_bf16 = [](const Op& op, const Call& call) {
    const Judged t(op, call);
    const std::int64_t width = call.sizes[2];
    for (std::int64_t i = 0; i < t("dtable").count(); ++i) t.put("dtable", i, 0);
    for (std::int64_t token = 0; token < call.sizes[0]; ++token)
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t to = t.index("index", token) * width + c;
        t.put("dtable", to, in_bf16(t.get("dtable", to) + t.get("dy", token * width + c)));
      }
  };
  constexpr auto full = Direction::backward_full;
  const std::vector<CaseInput> ones{{"index", "same_index(value=1)"}, {"dy", "constant(value=1)"}};
  return {
      shown("EMB-01", "1000 ones for one row of the table, added in bf16: 256", "embedding", full,
            "bf16:fp32:bf16", {1000, 3, 2}, ones, {},
            {{"dtable", {"=0", "=0", "=1000", "=1000", "=0", "=0"}}}, added_in_bf16),
      shown("EMB-02", "the same sum from a compiled index_put", "embedding", full, "bf16:fp32:bf16",
            {1000, 2, 1}, ones, {}, {{"dtable", {"=0", "=1000"}}}, added_in_bf16),
      shown("EMB-07", "frequent tokens added in bf16", "embedding", full, "bf16:fp32:bf16",
            {2048, 35, 4}, {{"index", "zipf"}, {"dy", "normal"}}, {}, {}, added_in_bf16),
  };
}

}  // namespace opbound::cases
