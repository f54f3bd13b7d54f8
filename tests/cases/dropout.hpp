// Public cases of dropout.
#pragma once

#include "ops/dropout.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace dropout_cases {

/// The mask of element source(i, n) for element i.
template <class F>
FaultyKernel masked_as(F source) {
  return [=](const Op& op, const Call& call) {
    op.run(call);
    const Judged t(op, call);
    const std::int64_t count = t("x").count();
    std::vector<std::int64_t> right;
    for (std::int64_t i = 0; i < count; ++i) right.push_back(t.index("mask", i));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t keeps = right[static_cast<std::size_t>(source(i, call.sizes[1]))];
      store_index(t("mask").element, t("mask").data, i, keeps);
      t.put("y", i, keeps != 0 ? t.get("x", i) / 0.9F : 0 * t.get("x", i));
    }
  };
}

/// A uniform number stored in bf16 before it is compared with p.
inline void compared_in_bf16(const Op& op, const Call& call) {
  op.run(call);
  const Judged t(op, call);
  const auto a = from_bytes<opbound::dropout::Attributes>(call.attributes);
  for (std::int64_t i = 0; i < t("x").count(); ++i) {
    const double u = static_cast<double>(opbound::dropout::word_of(a, i)) * 0x1p-32;
    const bool keeps = round_to(bf16, u) >= a.p;
    store_index(t("mask").element, t("mask").data, i, keeps ? 1 : 0);
    t.put("y", i, keeps ? t.get("x", i) / static_cast<float>(1 - a.p) : 0 * t.get("x", i));
  }
}

}  // namespace dropout_cases

inline std::vector<PublicCase> dropout() {
  using namespace dropout_cases;
  constexpr auto forth = Direction::forward, full = Direction::backward_full;
  const std::vector<std::int64_t> shape{32, 64};
  const std::vector<CaseInput> rows{{"x", "normal"}, {"dy", "normal"}};
  const auto step = [](std::int64_t offset) { return Attributes{{"offset", offset}}; };
  const auto probability = [](double p) { return Attributes{{"p", p}}; };
  return {
      shown("CKPT-01", "a block run again without the random state of its first run", "dropout",
            full, "bf16:fp32:bf16", shape, rows, step(4), {},
            with_attribute("offset", std::int64_t{8})),
      shown("CKPT-02", "a compiler makes the mask again from another seed", "dropout", full, "fp32",
            shape, {{"x", "constant(value=1)"}, {"dy", "constant(value=1)"}}, probability(0.25), {},
            with_attribute("seed", std::int64_t{1})),
      shown("CKPT-04", "a helper that does not restore the random state", "dropout", full, "fp32",
            shape, rows, {}, {}, with_attribute("offset", std::int64_t{1})),
      shown("DROP-01", "one mask for every fourth channel", "dropout", forth, "bf16:fp32:bf16",
            shape, rows, {}, {},
            masked_as([](std::int64_t i, std::int64_t n) { return i / n * n + i % (n / 4); })),
      shown("DROP-02", "a counter that starts at 0 in every call", "dropout", forth,
            "fp16:fp32:fp16", shape, rows, step(7), {}, with_attribute("offset", std::int64_t{0})),
      shown("DROP-04", "a threshold of 8 bits where 32 are declared", "dropout", forth,
            "bf16:fp32:bf16", {64, 128}, rows, probability(0.001), {},
            with_attribute("bits", std::string("8"))),
      shown("DROP-05", "p = 0.1 rounded to 2/16", "dropout", forth, "bf16:fp32:bf16", shape, rows,
            probability(0.1), {}, with_attribute("p", 0.125)),
      shown("DROP-07", "the mask read in the memory order of the other layout", "dropout", forth,
            "fp32", {6, 9}, {{"x", "increasing(start=0)"}}, {}, {},
            masked_as([](std::int64_t i, std::int64_t n) { return i % n * 6 + i / n; })),
      shown("DROP-08", "uniform numbers stored in bf16, which rounds some up to 1, and some to p",
            "dropout", forth, "bf16:fp32:bf16", {64, 128}, rows, probability(0.5), {},
            compared_in_bf16),
      shown("DROP-10", "the seed ignored", "dropout", forth, "fp32", shape, rows,
            {{"seed", std::int64_t{1234}}}, {}, with_attribute("seed", std::int64_t{0})),
  };
}

}  // namespace opbound::cases
