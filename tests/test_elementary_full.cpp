// The slow proofs of ops/elementary.hpp: every unary float function is correctly rounded on all
// 2^32 inputs; the double functions keep their stated errors on 2^21 inputs each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "ops/parallel.hpp"
#include "tests/elementary_inputs.hpp"

namespace opbound::oracle {
namespace {

struct Outcome {
  long inputs = 0;
  long undecided = 0;  // left to MPFR
  std::vector<float> wrong;
};

/// All floats whose upper byte is `first_byte`.
Outcome check_block(const Unary& f, std::uint32_t first_byte) {
  constexpr std::size_t batch = 4096;
  std::vector<float> x(batch), got(batch);
  Number scratch;
  Outcome outcome;
  for (std::uint32_t start = 0; start < 1U << 24; start += batch) {
    for (std::uint32_t i = 0; i < batch; ++i)
      x[i] = std::bit_cast<float>(first_byte << 24 | (start + i));
    f.of_floats(x.data(), got.data(), batch);
    for (std::size_t i = 0; i < batch; ++i) {
      if (!same(got[i], correctly_rounded(f, x[i], scratch, outcome.undecided)))
        outcome.wrong.push_back(x[i]);
    }
    outcome.inputs += batch;
  }
  return outcome;
}

Outcome check_all_floats(const Unary& f) {
  std::vector<Outcome> blocks(256);
  parallel_for(256, 1 << 24, [&](std::int64_t i) {
    blocks[static_cast<std::size_t>(i)] = check_block(f, static_cast<std::uint32_t>(i));
  });
  Outcome all;
  for (const Outcome& block : blocks) {
    all.inputs += block.inputs;
    all.undecided += block.undecided;
    all.wrong.insert(all.wrong.end(), block.wrong.begin(), block.wrong.end());
  }
  return all;
}

class FullElementary : public testing::TestWithParam<Unary> {};

TEST_P(FullElementary, EveryFloatIsCorrectlyRounded) {
  const Outcome outcome = check_all_floats(GetParam());
  std::printf("%-6s %ld inputs, %zu not correctly rounded, %ld decided by MPFR\n", GetParam().name,
              outcome.inputs, outcome.wrong.size(), outcome.undecided);
  for (std::size_t i = 0; i < std::min<std::size_t>(outcome.wrong.size(), 10); ++i)
    std::printf("  wrong at %a\n", static_cast<double>(outcome.wrong[i]));
  EXPECT_EQ(outcome.inputs, 1L << 32);
  EXPECT_EQ(outcome.wrong.size(), 0U);
}

TEST_P(FullElementary, DoubleStaysWithinItsStatedError) {
  const Unary& f = GetParam();
  constexpr std::size_t seeds = 32;
  std::vector<Worst> worst(seeds);
  parallel_for(seeds, 1 << 16, [&](std::int64_t i) {
    worst[static_cast<std::size_t>(i)] =
        worst_error(f, 1 << 16, 1000 + static_cast<std::uint64_t>(i));
  });
  const Worst largest = *std::max_element(
      worst.begin(), worst.end(), [](auto& a, auto& b) { return a.error_ulp < b.error_ulp; });
  std::printf("%-6s %.4f ulp at %a, stated %.2f\n", f.name, largest.error_ulp, largest.input,
              fp64_error_ulp(f.function));
  EXPECT_LE(largest.error_ulp, fp64_error_ulp(f.function)) << "at " << largest.input;
}

INSTANTIATE_TEST_SUITE_P(, FullElementary, testing::ValuesIn(unary_functions),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace opbound::oracle
