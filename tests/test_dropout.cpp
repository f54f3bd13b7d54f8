// Masks of the dropout op: exact tests of their distribution, and what they may depend on.
//
// A family of tests of right masks alarms with probability at most 1e-9; the masks being functions
// of (seed, offset, place), a test that passes once passes always.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bounds/probable.hpp"
#include "ops/dropout.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

struct Choice {
  double p = 0.1;
  std::int64_t seed = 1, offset = 0;
  dropout::Bits bits = dropout::Bits::b32;
  std::int64_t rows = 256, n = 1024;
};

CaseSpec spec_of(const Choice& c) {
  CaseSpec spec;
  spec.op = find_op("dropout");
  spec.attributes = to_bytes(dropout::Attributes{c.p, c.seed, c.offset, c.bits});
  spec.sizes = {c.rows, c.n};
  spec.precision = {fp32, fp32, fp32};
  spec.inputs.emplace_back("x", parse_input("constant(value=1)"));
  return spec;
}

std::vector<std::uint8_t> mask_of(const Choice& c) {
  const CaseSpec spec = spec_of(c);
  Prepared prepared = prepare(spec);
  spec.op->run(prepared.call);
  const Tensor& mask = prepared.tensors.find("mask")->second;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(mask.count()));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::uint8_t>(mask.index_at(static_cast<std::int64_t>(i)));
  return all;
}

double keep_probability(const Choice& c) {
  return 1 - drop_probability(c.p, dropout::bits_of({c.p, 0, 0, c.bits}));
}

constexpr std::array<std::int64_t, 7> lags{1, 2, 4, 32, 128, 1024, 4096};
constexpr std::array<dropout::Bits, 4> all_bits{dropout::Bits::b32, dropout::Bits::b24,
                                                dropout::Bits::b16, dropout::Bits::b8};
constexpr std::array<double, 4> shares{0.1, 0.5, 0.999, 0.001};

TEST(Dropout, MasksPassEveryTestOfTheFamily) {
  const Family family{1e-9, static_cast<int>(all_bits.size() * shares.size() * (lags.size() + 4))};
  for (const dropout::Bits bits : all_bits)
    for (const double p : shares) {
      Choice c{p, 7, 3, bits};
      const double keep = keep_probability(c);
      const auto mask = mask_of(c);
      const auto passes = [&](const BinomialCount& count, const std::string& what) {
        EXPECT_FALSE(family.rejects(count)) << what << " at p = " << p << ": " << count.successes
                                            << " of " << count.trials << ", " << p_value(count);
      };
      passes(kept_places(mask, keep), "rate");
      passes(unequal_neighbours(mask, keep), "neighbours");
      for (const std::int64_t lag : lags)
        passes(equal_at_lag(mask, lag, keep), "lag " + std::to_string(lag));
      Choice next_step = c, next_rank = c;
      ++next_step.offset;
      ++next_rank.seed;
      passes(equal_places(mask, mask_of(next_step), keep), "next step");
      passes(equal_places(mask, mask_of(next_rank), keep), "next rank");
    }
}

// What the tests are for: the masks of wrong kernels, each found at the same level.
TEST(Dropout, WrongMasksAreFound) {
  const Choice c;
  const double keep = keep_probability(c);
  const Family family{1e-9, 4};
  const auto mask = mask_of(c);
  EXPECT_TRUE(family.rejects(equal_places(mask, mask, keep))) << "reused at the next step";
  Choice coarse = c;
  coarse.bits = dropout::Bits::b8;  // drops 0.1016 where 0.1 was declared
  coarse.rows = 8192;
  EXPECT_TRUE(family.rejects(kept_places(mask_of(coarse), keep)));
  std::vector<std::uint8_t> by_row(mask.size());
  for (std::size_t i = 0; i < mask.size(); ++i) by_row[i] = mask[i / 1024];
  EXPECT_TRUE(family.rejects(equal_at_lag(by_row, 1, keep)));
}

TEST(Dropout, TheShareIsThatOfTheComparison) {
  Choice c{0.1, 1, 0, dropout::Bits::b8, 4096, 1024};
  const Family family{1e-9, 1};
  EXPECT_FALSE(family.rejects(kept_places(mask_of(c), keep_probability(c))));
  EXPECT_TRUE(family.rejects(kept_places(mask_of(c), 0.9)));  // 4.2e6 places see 0.0016
}

TEST(Dropout, EdgesAreExact) {
  for (const dropout::Bits bits : all_bits) {
    for (const std::uint8_t m : mask_of({0, 1, 0, bits, 8, 128})) ASSERT_EQ(m, 1);
    for (const std::uint8_t m : mask_of({1, 1, 0, bits, 8, 128})) ASSERT_EQ(m, 0);
  }
}

// The mask is a function of the place alone: a shape with as many elements has the same one, and a
// longer one begins with it.
TEST(Dropout, TheMaskDoesNotDependOnTheShape) {
  const auto flat = mask_of({0.3, 5, 9, dropout::Bits::b32, 1, 6000});
  EXPECT_EQ(mask_of({0.3, 5, 9, dropout::Bits::b32, 60, 100}), flat);
  EXPECT_EQ(mask_of({0.3, 5, 9, dropout::Bits::b32, 6000, 1}), flat);
  auto longer = mask_of({0.3, 5, 9, dropout::Bits::b32, 1, 7001});
  longer.resize(flat.size());
  EXPECT_EQ(longer, flat);
}

// Zero exactly where the forward pass has a zero: the backward pass made the same mask again.
TEST(Dropout, BackwardMakesTheSameMask) {
  CaseSpec spec = spec_of({0.4, 3, 17, dropout::Bits::b16, 16, 100});
  const auto mask = mask_of({0.4, 3, 17, dropout::Bits::b16, 16, 100});
  spec.direction = Direction::backward_local;
  spec.inputs.emplace_back("dy", parse_input("constant(value=1)"));
  Prepared prepared = prepare(spec);
  spec.op->run(prepared.call);
  const Tensor& dx = prepared.tensors.find("dx")->second;
  for (std::size_t i = 0; i < mask.size(); ++i)
    ASSERT_EQ(dx.at(static_cast<std::int64_t>(i)) != 0, mask[i] != 0);
}

}  // namespace
}  // namespace opbound
