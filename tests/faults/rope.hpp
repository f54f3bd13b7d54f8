// Planted faults of rope.
#pragma once

#include "ops/rope.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace rope_faults {

/// Halves turned by the angle that angle(position, i, pairs) gives, tables rounded by `stored`;
/// Every pair turned by angle(position, i, pairs), `sign` times, from position `offset` on; cosine
/// and sine go through `stored`.
template <class Angle, class Stored>
Kernel heads_by(float offset, float sign, bool interleaved, Angle angle, Stored stored) {
  return [=](const Op&, const Call& call) {
    const auto views = call.judged();
    const TensorView &x = views[0], &y = views[4];
    const std::int64_t heads = call.sizes[1], d = call.sizes[2], pairs = call.sizes[3];
    for (std::int64_t block = 0; block < call.sizes[0] * heads; ++block) {
      const std::int64_t token = block / heads;
      const float position = offset + static_cast<float>(token);
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float t = angle(position, static_cast<float>(i), static_cast<float>(pairs));
        const float c = stored(cos(t)), s = sign * stored(sin(t));
        const std::int64_t first = block * d + (interleaved ? 2 * i : i);
        const std::int64_t second = interleaved ? first + 1 : first + pairs;
        const auto a = static_cast<float>(x.at(first)), b = static_cast<float>(x.at(second));
        y.set(first, round_to(format_of(y.element), a * c - b * s));
        y.set(second, round_to(format_of(y.element), a * s + b * c));
      }
    }
  };
}

inline float frequency(float i, float pairs) { return exp(-(i / pairs) * log(10000.0F)); }
inline float right_angle(float position, float i, float pairs) {
  return position * frequency(i, pairs);
}

/// In halves; the control does what the attributes and the direction say.
template <class Angle, class Stored>
FaultyKernel turned(float offset, float sign, Angle angle, Stored stored) {
  return {heads_by(offset, sign, false, angle, stored), [](const Op& op, const Call& call) {
            const auto a = from_bytes<opbound::rope::Attributes>(call.attributes);
            heads_by(static_cast<float>(a.offset), call.direction == Direction::forward ? 1 : -1,
                     a.pairing == opbound::rope::Pairing::interleaved, right_angle,
                     as_is)(op, call);
          }};
}

}  // namespace rope_faults

inline std::vector<Fault> rope() {
  using namespace rope_faults;
  constexpr auto local = Direction::backward_local;
  const Inputs x{{"x", "normal"}}, dy{{"dy", "normal"}};
  const Attributes interleaved{{"pairing", std::string("interleaved")}},
      long_context{{"offset", std::int64_t{1857}}}, tables{{"angles", std::string("tables")}};
  const std::vector<std::int64_t> shape{5, 2, 32, 16, 5};
  return {
      planted("rope", "halves_for_interleaved",
              "pairs (i, i + d/2) where (2i, 2i + 1) are asked for", {}, "fp32", shape, x,
              interleaved, turned(0, 1, right_angle, as_is)),
      planted("rope", "positions_from_one", "the first token at position 1", {}, "bf16:fp32:bf16",
              shape, x, {}, turned(1, 1, right_angle, as_is)),
      planted("rope", "turned_back", "the sign of the sine wrong", {}, "fp32", shape, x, {},
              turned(0, -1, right_angle, as_is)),
      planted("rope", "angle_in_fp16", "position * frequency in fp16, at position 1857", {},
              "fp16:fp32:fp16", shape, x, long_context,
              turned(
                  1857, 1,
                  [](float position, float i, float pairs) {
                    return in_fp16(in_fp16(position) * in_fp16(frequency(i, pairs)));
                  },
                  as_is)),
      planted("rope", "position_in_bf16", "the position in bf16: 1858 tokens, 1856 and 1864", {},
              "bf16:fp32:bf16", shape, x, long_context,
              turned(
                  1857, 1,
                  [](float position, float i, float pairs) {
                    return in_bf16(position) * frequency(i, pairs);
                  },
                  as_is)),
      planted("rope", "tables_in_bf16", "cosine and sine rounded to bf16 where fp32 is declared",
              {}, "bf16:fp32:bf16", shape, x, {}, turned(0, 1, right_angle, in_bf16)),
      planted("rope", "exponent_by_d", "base^(-i / d) for base^(-2i / d)", {}, "fp32", shape, x, {},
              turned(
                  0, 1,
                  [](float position, float i, float pairs) {
                    return position * frequency(i, 2 * pairs);
                  },
                  as_is)),
      planted("rope", "truncated_store", "the output truncated instead of rounded to nearest", {},
              "bf16:fp32:bf16", shape, x, {}, truncating()),
      planted("rope", "backward_turns_forth", "dx turned like x, not back", local, "bf16:fp32:bf16",
              shape, dy, {}, turned(0, 1, right_angle, as_is)),
      planted("rope", "table_of_the_first_token", "every token reads the table's first row", {},
              "fp32", shape, {{"x", "normal"}, {"cos", "uniform"}, {"sin", "uniform"}}, tables,
              with_call([](Call& c) { c.forward[1].stride[0] = c.forward[2].stride[0] = 0; })),
  };
}

}  // namespace opbound::faults
