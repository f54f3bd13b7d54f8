// Proof by exhaustion: every unary float function is correctly rounded on all 2^32 inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/elementary_oracle.hpp"

namespace opbound::oracle {
namespace {

struct Outcome {
  long inputs = 0;
  long undecided = 0;  // left to MPFR
  std::vector<float> wrong;
};

/// All floats whose upper byte is `first_byte`.
void check_block(const Unary& f, std::uint32_t first_byte, Outcome& outcome) {
  constexpr int batch = 4096;
  std::vector<float> x(batch), got(batch);
  Number scratch;
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
}

Outcome check_all_floats(const Unary& f) {
  std::atomic<std::uint32_t> next{0};
  std::vector<Outcome> outcomes(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (Outcome& outcome : outcomes) {
    threads.emplace_back([&] {
      for (std::uint32_t block = next++; block < 256; block = next++)
        check_block(f, block, outcome);
    });
  }
  for (std::thread& t : threads) t.join();
  Outcome all;
  for (const Outcome& part : outcomes) {
    all.inputs += part.inputs;
    all.undecided += part.undecided;
    all.wrong.insert(all.wrong.end(), part.wrong.begin(), part.wrong.end());
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

INSTANTIATE_TEST_SUITE_P(, FullElementary, testing::ValuesIn(unary_functions),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace opbound::oracle
