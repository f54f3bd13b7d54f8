// Public cases of rope.
#pragma once

#include "ops/rope.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace rope_cases {

/// Halves turned by product(position, frequency), stored by `stored`.
template <class Product, class Stored>
FaultyKernel turned(float offset, Product product, Stored stored) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    const std::int64_t heads = call.sizes[1], d = call.sizes[2], pairs = call.sizes[3];
    for (std::int64_t block = 0; block < call.sizes[0] * heads; ++block) {
      const std::int64_t token = block / heads;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float share = static_cast<float>(i) / static_cast<float>(pairs);
        const float angle =
            product(offset + static_cast<float>(token), exp(-(share * log(10000.0F))));
        const float c = stored(cos(angle)), s = stored(sin(angle));
        const std::int64_t at = block * d + i;
        const float a = t.get("x", at), b = t.get("x", at + pairs);
        t.put("y", at, a * c - b * s);
        t.put("y", at + pairs, a * s + b * c);
      }
    }
  };
}

}  // namespace rope_cases

inline std::vector<PublicCase> rope() {
  using namespace rope_cases;
  constexpr auto forth = Direction::forward;
  const auto from = [](std::int64_t offset) { return Attributes{{"offset", offset}}; };
  const std::vector<CaseInput> x{{"x", "normal"}};
  return {
      shown("ROPE-01", "position * frequency in fp16: 1045 for 1044.27", "rope", forth,
            "fp16:fp32:fp16", {4, 2, 32, 16, 1}, x, from(1857), {},
            turned(
                1857, [](float p, float f) { return in_fp16(in_fp16(p) * in_fp16(f)); }, in_fp16)),
      shown("ROPE-02", "positions in bf16: 257 is 256", "rope", forth, "bf16:fp32:bf16",
            {4, 2, 32, 16, 1}, x, from(256), {},
            turned(
                256, [](float p, float f) { return in_bf16(p) * f; }, [](float v) { return v; })),
      shown("ROPE-02", "position * frequency in bf16 at 2048", "rope", forth, "bf16:fp32:bf16",
            {4, 2, 128, 64, 1}, x, from(2045), {},
            turned(
                2045, [](float p, float f) { return in_bf16(in_bf16(p) * in_bf16(f)); }, in_bf16)),
  };
}

}  // namespace opbound::cases
