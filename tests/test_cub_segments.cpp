// The items that ops/providers/cub tells CUB to add, against the definition of segmented_sum: every
// element of a segment once, and no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "ops/providers/cub/segments.hpp"

namespace opbound::with_cub {
namespace {

using Whole = long long;

/// A problem of random sizes: what CUB would add for each element of y, and what it should.
struct Random {
  std::mt19937 words;
  Whole rows, width, segments;
  std::vector<Whole> index;

  explicit Random(unsigned seed, bool by_ids)
      : words(seed), rows(below(20)), width(1 + below(4)), segments(1 + below(6)) {
    const Whole most = by_ids ? segments : rows;
    index.resize(static_cast<std::size_t>(by_ids ? rows : segments + 1));
    for (Whole& i : index) i = below(most + 6) - 3;
  }

  Whole below(Whole n) { return static_cast<Whole>(words() % static_cast<std::uint32_t>(n)); }

  /// Places in a dense x.
  std::vector<Whole> told(const Segments& s, const Whole* order, Whole k) const {
    const Items items{order, rows, width, 1};
    std::vector<Whole> places;
    for (Whole item = s.first_item(k); item < s.end_item(k); ++item)
      places.push_back(items.place_of(item));
    std::sort(places.begin(), places.end());
    return places;
  }
};

TEST(CubSegments, OffsetsAreClippedAndMayOverlap) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const Random r(seed, false);
    const Segments s{{r.index.data(), 1, true}, nullptr, r.rows, r.width};
    const Results results{r.width, r.width, 1};
    for (Whole k = 0; k < r.segments * r.width; ++k) {
      const Whole place = results.place_of(k), segment = place / r.width, c = place % r.width;
      std::vector<Whole> right;
      for (Whole i = 0; i < r.rows; ++i)
        if (r.index[static_cast<std::size_t>(segment)] <= i &&
            i < r.index[static_cast<std::size_t>(segment + 1)])
          right.push_back(i * r.width + c);
      ASSERT_EQ(r.told(s, nullptr, k), right) << seed;
      ASSERT_LE(s.first_item(k), s.end_item(k)) << seed;  // or CUB would read on
    }
  }
}

TEST(CubSegments, IdsOutsideAddToNothing) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const Random r(seed, true);
    const auto id = [&](Whole i) { return r.index[static_cast<std::size_t>(i)]; };
    std::vector<Whole> order(static_cast<std::size_t>(r.rows) + 1), sorted;  // one more: no null
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end() - 1,
                     [&](Whole a, Whole b) { return id(a) < id(b); });
    for (Whole i = 0; i < r.rows; ++i) sorted.push_back(id(order[static_cast<std::size_t>(i)]));
    sorted.push_back(0);
    const Segments s{{}, sorted.data(), r.rows, r.width};
    for (Whole k = 0; k < r.segments * r.width; ++k) {
      std::vector<Whole> right;
      for (Whole i = 0; i < r.rows; ++i)
        if (id(i) == k / r.width) right.push_back(i * r.width + k % r.width);
      ASSERT_EQ(r.told(s, order.data(), k), right) << seed;
    }
  }
}

TEST(CubSegments, IndicesOfBothWidths) {
  const std::vector<int> narrow{3, 0, -7};
  EXPECT_EQ((Index{narrow.data(), 2, false}[1]), -7);
  const std::vector<Whole> wide{3, 1LL << 40};
  EXPECT_EQ((Index{wide.data(), 1, true}[1]), 1LL << 40);
}

}  // namespace
}  // namespace opbound::with_cub
