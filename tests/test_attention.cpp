// Which keys a query of attention sees, and which head of keys it reads: the same row logic serves
// definition and kernel, so nothing else would notice it wrong. With q = 0 all seen keys have the
// same weight, and with v = 2^place the output times their count is the set of them, read as bits.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/attention.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

using Place = attention::forward;
constexpr std::int64_t heads = 6, kv_heads = 2, queries = 4, keys = 5, d = 3;

CaseSpec attention_case(const char* mask) {
  CaseSpec spec;
  spec.op = find_op("attention");
  spec.attributes = spec.op->default_attributes;
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == "mask") {
      EXPECT_TRUE(a.set(spec.attributes, std::string(mask)));
    }
  spec.sizes = {heads, kv_heads, queries, keys, d};
  return spec;
}

/// Row (h, i) of the definition has to be the mean of 2^(5 g + j) over the keys j that it sees, g
/// = h * kv_heads / heads; with none: 0, and lse = -infinity.
template <class Sees>
void expect_seen(const CaseSpec& spec, Sees sees) {
  Tensors given;
  given.emplace("q", Tensor(fp32, {heads, queries, d}));
  Tensor v(fp32, {kv_heads, keys, d});
  for (std::int64_t i = 0; i < v.count(); ++i) {
    const std::int64_t place = i / d;
    v.set(i, static_cast<double>(std::int64_t{1} << place));
  }
  given.emplace("v", v);
  Prepared p = prepare(spec, std::move(given));
  ReferenceArrays exact(p.call.forward.size());
  spec.op->reference_dd(p.call, exact);
  for (std::int64_t row = 0; row < heads * queries; ++row) {
    const std::int64_t group = row / queries * kv_heads / heads;
    std::int64_t count = 0, bits = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (!sees(p, row % queries, j)) continue;
      ++count;
      bits += std::int64_t{1} << (group * keys + j);
    }
    const double times = static_cast<double>(count);
    for (std::int64_t c = 0; c < d; ++c) {
      const double o = exact[Place::o].exact[static_cast<std::size_t>(row * d + c)].high;
      EXPECT_EQ(std::llround(o * times), bits) << row;
    }
    const double lse = exact[Place::lse].exact[static_cast<std::size_t>(row)].high;
    EXPECT_EQ(std::llround(std::exp(lse)), count) << row;
  }
}

TEST(Attention, SeesAllKeysWithoutMask) {
  expect_seen(attention_case("none"), [](auto&, auto, auto) { return true; });
}

TEST(Attention, SeesEarlierKeysWithCausality) {
  expect_seen(attention_case("causal"), [](auto&, std::int64_t i, std::int64_t j) {
    return j <= i + 1;  // the fourth query sees all five keys
  });
}

TEST(Attention, CausalityMayBeCountedFromTheFirstKey) {
  CaseSpec spec = attention_case("causal");
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == "causal_from") {
      EXPECT_TRUE(a.set(spec.attributes, std::string("first_key")));
    }
  expect_seen(spec, [](auto&, std::int64_t i, std::int64_t j) { return j <= i; });
}

TEST(Attention, SeesWhatAMaskAllows) {
  CaseSpec spec = attention_case("boolean");
  spec.inputs.emplace_back("mask", parse_input("mask(p=0.5, empty_rows=0.4)"));
  expect_seen(spec, [](const Prepared& p, std::int64_t i, std::int64_t j) {
    return p.tensors.find("mask")->second.index_at(i * keys + j) != 0;
  });
}

TEST(Attention, HeadsHaveToShareKeyHeadsEvenly) {
  const CaseSpec spec = attention_case("none");
  EXPECT_EQ(spec.op->refuses(spec.attributes, {6, 4, 1, 1, 1}), "heads a multiple of kv_heads");
  EXPECT_EQ(spec.op->refuses(spec.attributes, {6, 3, 1, 1, 1}), "");
}

}  // namespace
}  // namespace opbound
