// Inputs that are integers or booleans.
#include <gtest/gtest.h>

#include <map>

#include "reports/error.hpp"
#include "suites/input.hpp"

namespace opbound {
namespace {

Tensor filled(Element e, const Shape& shape, std::string_view spec, std::int64_t below) {
  Tensor t(e, shape);
  fill_input(t, parse_input(spec), 1, "t", below);
  return t;
}

TEST(IndexInput, IsBelowTheSizeAndReachesAllOfIt) {
  const Tensor t = filled(Element::int64, {2000}, "index", 7);
  std::map<std::int64_t, int> count;
  for (std::int64_t i = 0; i < t.count(); ++i) ++count[t.index_at(i)];
  EXPECT_EQ(count.size(), 7U);
  EXPECT_EQ(count.begin()->first, 0);
  EXPECT_EQ(count.rbegin()->first, 6);
}

TEST(IndexInput, AShareIsIgnored) {
  const Tensor t = filled(Element::int64, {4000}, "index(ignored=0.5)", 3);
  int ignored = 0;
  for (std::int64_t i = 0; i < t.count(); ++i) ignored += t.index_at(i) == -100 ? 1 : 0;
  EXPECT_GT(ignored, 1700);
  EXPECT_LT(ignored, 2300);
}

TEST(IndexInput, ZipfPrefersSmallIndices) {
  const Tensor t = filled(Element::int64, {10000}, "zipf", 1000);
  std::map<std::int64_t, int> count;
  for (std::int64_t i = 0; i < t.count(); ++i) ++count[t.index_at(i)];
  EXPECT_GT(count[0], count[1]);
  EXPECT_GT(count[1], count[9]);
  EXPECT_GE(count.begin()->first, 0);
  EXPECT_LT(count.rbegin()->first, 1000);
}

TEST(IndexInput, CountsAndRepeats) {
  const Tensor t = filled(Element::int64, {5}, "counting", 3);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(t.index_at(i), i % 3);
  EXPECT_EQ(filled(Element::int64, {2}, "same_index(value=5)", 9).index_at(1), 5);
}

TEST(MaskInput, RowsMayBeEmpty) {
  const Tensor t = filled(Element::boolean, {200, 16}, "mask(p=0.9, empty_rows=0.5)", 0);
  int empty = 0, set = 0;
  for (std::int64_t r = 0; r < 200; ++r) {
    int in_row = 0;
    for (std::int64_t j = 0; j < 16; ++j) in_row += static_cast<int>(t.index_at(r * 16 + j));
    empty += in_row == 0 ? 1 : 0;
    set += in_row;
  }
  EXPECT_GT(empty, 60);
  EXPECT_LT(empty, 140);
  EXPECT_GT(set, 1000);
}

TEST(IndexInput, NumbersDoNotFillIndices) {
  Tensor t(Element::int64, {3});
  EXPECT_THROW(fill_input(t, parse_input("normal"), 1, "t", 3), InputError);
  Tensor x(Element::fp32, {3});
  EXPECT_THROW(fill_input(x, parse_input("index"), 1, "x", 3), InputError);
  EXPECT_THROW(fill_input(x, parse_input("mask"), 1, "x"), InputError);
}

}  // namespace
}  // namespace opbound
