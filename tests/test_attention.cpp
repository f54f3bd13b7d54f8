// The definition of attention against loops in long double that share nothing with it: which keys a
// query sees and which head of keys it reads are the same row logic in definition and kernel, so
// that nothing else would notice them wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/attention.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

using Place = attention::forward;
using Grid = std::vector<std::vector<long double>>;

struct Plain {
  Grid o;  // by row (head, query)
  std::vector<long double> lse;
};

/// Every row: the keys that `sees(i, j)` allows, of key head h * kv_heads / heads.
template <class Sees>
Plain plain_attention(const CaseSpec& spec, const Prepared& p, Sees sees) {
  const auto [heads, kv_heads, queries, keys, d] =
      std::tuple(spec.sizes[0], spec.sizes[1], spec.sizes[2], spec.sizes[3], spec.sizes[4]);
  const auto at = [&](const char* name, std::int64_t i) -> long double {
    return p.tensors.find(name)->second.at(i);
  };
  Plain all;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t kv = h * kv_heads / heads;
    for (std::int64_t i = 0; i < queries; ++i) {
      std::vector<long double> o(static_cast<std::size_t>(d), 0);
      long double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!sees(i, j)) continue;
        long double score = 0;
        for (std::int64_t c = 0; c < d; ++c)
          score += at("q", (h * queries + i) * d + c) * at("k", (kv * keys + j) * d + c);
        const long double w = std::exp(score / std::sqrt(static_cast<long double>(d)));
        sum += w;
        for (std::int64_t c = 0; c < d; ++c)
          o[static_cast<std::size_t>(c)] += w * at("v", (kv * keys + j) * d + c);
      }
      for (auto& x : o) x = sum == 0 ? 0 : x / sum;
      all.o.push_back(o);
      all.lse.push_back(std::log(sum));
    }
  }
  return all;
}

CaseSpec attention_case(const char* mask) {
  CaseSpec spec;
  spec.op = find_op("attention");
  spec.attributes = spec.op->default_attributes;
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == "mask") {
      EXPECT_TRUE(a.set(spec.attributes, std::string(mask)));
    }
  spec.sizes = {6, 2, 4, 5, 3};
  return spec;
}

template <class Sees>
void expect_definition(const CaseSpec& spec, Sees sees) {
  Prepared p = prepare(spec);
  ReferenceArrays exact(p.call.forward.size());
  spec.op->reference_dd(p.call, exact);
  const Plain plain =
      plain_attention(spec, p, [&](std::int64_t i, std::int64_t j) { return sees(p, i, j); });
  const auto d = static_cast<std::size_t>(spec.sizes[4]);
  for (std::size_t row = 0; row < plain.o.size(); ++row) {
    for (std::size_t c = 0; c < d; ++c)
      EXPECT_NEAR(exact[Place::o].exact[row * d + c].high, static_cast<double>(plain.o[row][c]),
                  1e-15);
    const double lse = exact[Place::lse].exact[row].high;
    if (std::isinf(plain.lse[row]))
      EXPECT_EQ(lse, static_cast<double>(plain.lse[row])) << row;
    else
      EXPECT_NEAR(lse, static_cast<double>(plain.lse[row]), 1e-15) << row;
  }
}

TEST(Attention, DefinitionWithoutMask) {
  expect_definition(attention_case("none"), [](auto&, auto, auto) { return true; });
}

TEST(Attention, DefinitionWithCausality) {
  expect_definition(attention_case("causal"), [](auto&, std::int64_t i, std::int64_t j) {
    return j <= i + 1;  // the fourth query sees all five keys
  });
}

TEST(Attention, DefinitionWithMaskAndEmptyRows) {
  CaseSpec spec = attention_case("boolean");
  spec.inputs = {{"mask", parse_input("mask(p=0.5, empty_rows=0.4)")}};
  expect_definition(spec, [](const Prepared& p, std::int64_t i, std::int64_t j) {
    return p.tensors.find("mask")->second.index_at(i * 5 + j) != 0;
  });
}

TEST(Attention, HeadsHaveToShareKeyHeadsEvenly) {
  const CaseSpec spec = attention_case("none");
  EXPECT_EQ(spec.op->refuses(spec.attributes, {6, 4, 1, 1, 1}), "heads a multiple of kv_heads");
  EXPECT_EQ(spec.op->refuses(spec.attributes, {6, 3, 1, 1, 1}), "");
}

}  // namespace
}  // namespace opbound
