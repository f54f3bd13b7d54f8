// Planted faults of dropout.
#pragma once

#include "ops/dropout.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace dropout_faults {

using Attributes = opbound::dropout::Attributes;
using Dropped = opbound::dropout::Dropped;

/// y = x scale(p) where keeps(word, attributes, i, n), over fp32; the mask goes with it.
template <class K, class S>
Kernel elements_by(K keeps, S scale) {
  return [=](const Op&, const Call& call) {
    const auto a = from_bytes<Attributes>(call.attributes);
    const auto views = call.judged();
    for (std::int64_t i = 0; i < views[0].count(); ++i) {
      const bool kept = keeps(a, i, call.sizes[1]);
      const float s = kept ? scale(static_cast<float>(a.p)) : 0.0F;
      views[1].set(i,
                   round_to(format_of(views[1].element), static_cast<float>(views[0].at(i)) * s));
      if (views.size() > 2) views[2].set(i, kept ? 1 : 0);
    }
  };
}

inline double uniform(const Attributes& a, std::int64_t i) {
  const int b = opbound::dropout::bits_of(a);
  return static_cast<double>(opbound::dropout::word_of(a, i) >> (32 - b)) * power_of_two(-b);
}
inline bool right_mask(const Attributes& a, std::int64_t i, std::int64_t) {
  return uniform(a, i) >= a.p;
}
inline float right_scale(float p) { return 1 / (1 - p); }

template <class K, class S>
FaultyKernel masked(K keeps, S scale) {
  return {elements_by(keeps, scale), elements_by(right_mask, right_scale)};
}

}  // namespace dropout_faults

inline std::vector<Fault> dropout() {
  using namespace dropout_faults;
  constexpr auto up = Direction::backward_local;
  const auto with = [](std::string_view name, std::string_view what, Direction direction,
                       std::string_view bits, auto run, double p = 0.1) {
    return planted("dropout", name, what, direction, "bf16:fp32:bf16", {64, 128},
                   {{"x", "normal"}, {"dy", "normal"}},
                   {{"p", p},
                    {"bits", std::string(bits)},
                    {"offset", std::int64_t{3}},
                    {"seed", std::int64_t{11}}},
                   run);
  };
  const auto last_step = with_attributes_of<Attributes>([](Attributes& a) { --a.offset; });
  const auto other_rank = with_attributes_of<Attributes>([](Attributes& a) { ++a.seed; });
  Fault multiplied =
      with("multiplies_what_it_drops", "0 x: a dropped NaN is NaN", {}, "32",
           with_attributes_of<Attributes>([](Attributes& a) { a.dropped = Dropped::product; }));
  Fault selected =
      with("selects_what_it_drops", "declared 0 x: a dropped NaN is 0", {}, "32",
           with_attributes_of<Attributes>([](Attributes& a) { a.dropped = Dropped::zero; }));
  multiplied.inputs = selected.inputs = {{"x", "special"}, {"dy", "normal"}};
  selected.attributes.emplace_back("dropped", std::string("product"));
  return {
      multiplied,
      selected,
      with("mask_of_the_last_step", "the offset was not advanced", {}, "32", last_step),
      with("mask_of_another_rank", "the seed of the next rank", {}, "32", other_rank),
      with("backward_with_another_mask", "the offset was advanced before the backward pass", up,
           "32", with_attributes_of<Attributes>([](Attributes& a) { ++a.offset; })),
      with("at_most_for_below", "dropped where U <= p: one value of U more", {}, "8",
           masked([](const Attributes& a, std::int64_t i,
                     std::int64_t) { return uniform(a, i) > a.p; },
                  right_scale),
           0.125),
      with("keeps_what_it_drops", "the mask is U < p", {}, "32",
           masked([](const Attributes& a, std::int64_t i,
                     std::int64_t) { return uniform(a, i) < a.p; },
                  right_scale)),
      with("scale_by_p", "x / p", {}, "32", masked(right_mask, [](float p) { return 1 / p; })),
      with("scale_missing", "x mask, as at inference", {}, "32",
           masked(right_mask, [](float) { return 1.0F; })),
      with("backward_scale_missing", "dy mask", up, "32",
           masked(right_mask, [](float) { return 1.0F; })),
      with("scale_in_bf16", "1 / (1 - p) held in bf16: 0.16% too small", {}, "32",
           masked(right_mask,
                  [](float p) { return static_cast<float>(round_to(bf16, 1 / (1 - p))); })),
      with("mask_of_the_row", "one random number for a row", {}, "32",
           masked([](const Attributes& a, std::int64_t i,
                     std::int64_t n) { return uniform(a, i / n) >= a.p; },
                  right_scale)),
      with("mask_of_the_column", "the index within the row: every row has the same mask", {}, "32",
           masked([](const Attributes& a, std::int64_t i,
                     std::int64_t n) { return uniform(a, i % n) >= a.p; },
                  right_scale)),
      with("p_in_8_bits", "8 bits at most floor(255 (1 - p)): 0.1016 is dropped", {}, "32",
           masked(
               [](const Attributes& a, std::int64_t i, std::int64_t) {
                 return std::floor(uniform(a, i) * 256) <= std::floor(255 * (1 - a.p));
               },
               right_scale)),
      with("uniform_in_bf16", "U rounded to bf16 before it is compared", {}, "32",
           masked([](const Attributes& a, std::int64_t i,
                     std::int64_t) { return round_to(bf16, uniform(a, i)) >= round_to(bf16, a.p); },
                  right_scale)),
  };
}

}  // namespace opbound::faults
