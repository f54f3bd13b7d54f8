// Public cases of global_norm.
#pragma once

#include <limits>

#include "ops/global_norm.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace global_norm_cases {

/// sqrt(sum over shards of (norm of the shard)^2), squares and sums stored by `square`, the shards'
/// norms by `partial`; terms that `takes` refuses left out.
template <class Square, class Partial, class Takes>
FaultyKernel norm(Square square, Partial partial, Takes takes) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    float total = 0;
    for (std::int64_t shard = 0; shard < call.sizes[0]; ++shard) {
      float s = 0;
      for (std::int64_t i = 0; i < call.sizes[1]; ++i) {
        const float g = t.get("g", shard * call.sizes[1] + i);
        if (takes(g)) s = square(s + square(g * g));
      }
      const float own = partial(sqrt(s));
      total += own * own;
    }
    t.put("norm", 0, sqrt(total));
  };
}

}  // namespace global_norm_cases

inline std::vector<PublicCase> global_norm() {
  using namespace global_norm_cases;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr auto forth = Direction::forward;
  const auto all = [](float) { return true; };
  const auto numbers = [](float x) { return x == x; };
  std::vector<PublicCase> cases{
      shown("CLIP-01", "squares in fp16: a norm of 5000 is infinite", "global_norm", forth,
            "fp16:fp32:fp16", {1, 2, 1}, {{"g", "", {3000, 4000}}}, {}, {{"norm", {"=5000"}}},
            norm(in_fp16, as_is, all)),
      shown("CLIP-04", "the norms of four shards stored in bf16", "global_norm", forth,
            "bf16:fp32:fp32", {4, 512, 1}, {{"g", "normal(sigma=0.03)"}}, {}, {},
            norm(as_is, in_bf16, all)),
  };
  const std::vector<std::vector<double>> orders{{3, nan, 1}, {nan, 3, 1}, {3, 1, nan}};
  for (const std::vector<double>& g : orders)
    cases.push_back(shown("CLIP-05", "a NaN among the norms that a comparison leaves out",
                          "global_norm", forth, "fp32", {3, 1, 1}, {{"g", "", g}}, {},
                          {{"norm", {"nan"}}}, norm(as_is, as_is, numbers)));
  return cases;
}

}  // namespace opbound::cases
