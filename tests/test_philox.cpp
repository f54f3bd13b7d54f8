// Philox4x32-10 against its published answers, and the map from a place to a random word.
#include "ops/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace opbound {
namespace {

// The known-answer file of Random123 (Salmon, Moraes, Dror and Shaw 2011).
static_assert(philox({0, 0, 0, 0}, {0, 0}) ==
              PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, KnownAnswersAtRunTime) {
  const volatile std::uint32_t ones = 0xffffffff;
  const PhiloxCounter exact{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}), exact);
}

// One key permutes the counters: no two of them share their four words.
TEST(Philox, CountersDoNotCollide) {
  std::vector<PhiloxCounter> blocks;
  for (std::uint32_t i = 0; i < 4096; ++i) {
    blocks.push_back(philox({i, 0, 0, 0}, {1, 2}));
    blocks.push_back(philox({0, 0, i + 1, 0}, {1, 2}));
  }
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::adjacent_find(blocks.begin(), blocks.end()), blocks.end());
}

TEST(PhiloxWord, IsALaneOfTheCounterOfItsPlace) {
  constexpr std::uint64_t seed = 0x0123456789abcdef, offset = 0xfedcba9876543210;
  for (const std::uint64_t block :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 32, (std::uint64_t{1} << 62) - 1}) {
    const PhiloxCounter words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                0x76543210, 0xfedcba98},
               {0x89abcdef, 0x01234567});
    for (std::uint64_t lane = 0; lane < 4; ++lane)
      EXPECT_EQ(philox_word(seed, offset, 4 * block + lane), words[lane]) << block;
  }
}

// A mask must not depend on grid size, vector width or order, nor on whether it is computed again.
TEST(PhiloxWord, IsTheSameForEveryPartitionAndOrder) {
  constexpr std::uint64_t seed = 42, offset = 3, count = 1000;
  std::vector<std::uint32_t> whole(count);
  for (std::uint64_t i = 0; i < count; ++i) whole[i] = philox_word(seed, offset, i);
  for (const std::uint64_t width : {2U, 3U, 8U, 33U}) {
    std::vector<std::uint32_t> strided(count);
    for (std::uint64_t thread = width; thread-- > 0;)
      for (std::uint64_t i = thread; i < count; i += width)
        strided[i] = philox_word(seed, offset, i);
    EXPECT_EQ(strided, whole) << width;
  }
}

TEST(PhiloxWord, EveryBitOfSeedOffsetAndIndexCounts) {
  std::vector<std::uint32_t> words{philox_word(0, 0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t one = std::uint64_t{1} << bit;
    words.push_back(philox_word(one, 0, 0));
    words.push_back(philox_word(0, one, 0));
    words.push_back(philox_word(0, 0, one));
  }
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(StochasticCast, IsAFunctionOfItsPlaceAndUnbiased) {
  // 2^20 casts of 1 + 2^-9 to bf16 go up with probability 1/4. Hoeffding 1963: the count is off by
  // t or more with probability at most 2 exp(-2 t^2 / n), 1.1e-10 at t = 3526.
  constexpr int casts = 1 << 20;
  int up = 0;
  for (int i = 0; i < casts; ++i) {
    const double y = stochastic_cast(bf16, 1 + 0x1p-9, 7, 3, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(y == 1 || y == 1 + 0x1p-7);
    up += y > 1 ? 1 : 0;
  }
  EXPECT_LT(std::abs(up - casts / 4), 3526);
  EXPECT_EQ(stochastic_cast(bf16, 1 + 0x1p-9, 7, 3, 11),
            round_stochastic(bf16, 1 + 0x1p-9, philox_word(7, 3, 11)));
  EXPECT_EQ(stochastic_cast(fp16, 0.5, 1, 2, 3), 0.5);
}

}  // namespace
}  // namespace opbound
