// How numbers and foreign words are shown.
#include "reports/text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace opbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Legible, ReadsAtAGlance) {
  EXPECT_EQ(legible(0.0), "0");
  EXPECT_EQ(legible(0.7123), "0.71");
  EXPECT_EQ(legible(-0.7123), "-0.71");
  EXPECT_EQ(legible(3.2e-4), "3.2e-4");
  EXPECT_EQ(legible(9.94e-2), "9.9e-2");
  EXPECT_EQ(legible(0.0996), "0.10");
  EXPECT_EQ(legible(12.345), "12.35");
  EXPECT_EQ(legible(317.4), "317");
  EXPECT_EQ(legible(12345678.0), "1.2e7");
  EXPECT_EQ(legible(1e100), "1.0e100");
  EXPECT_EQ(legible(5e-324), "4.9e-324");
  EXPECT_EQ(legible(infinity), "inf");
  EXPECT_EQ(legible(-infinity), "-inf");
  EXPECT_EQ(legible(std::nan("")), "nan");
  EXPECT_EQ(legible(std::uint64_t{99999}), "99999");
  EXPECT_EQ(legible(std::uint64_t{12000000}), "1.2e7");
}

TEST(Legible, NeverShowsAnEdgeThatIsNotReached) {
  EXPECT_EQ(legible(1.0), "1.00");
  EXPECT_EQ(legible(1.00002), "1.00002");
  EXPECT_EQ(legible(0.99997), "0.99997");
  EXPECT_EQ(legible(0.5), "0.50");
  EXPECT_EQ(legible(0.4998), "0.4998");
  EXPECT_EQ(legible(std::nextafter(1.0, 2.0)), ">1.00");
  EXPECT_EQ(legible(std::nextafter(1.0, 0.0)), "<1.00");
  EXPECT_EQ(legible(std::nextafter(0.5, 1.0)), ">0.50");
  EXPECT_EQ(legible(-std::nextafter(0.5, 1.0)), "<-0.50");
}

TEST(Printable, RemovesWhatMovesTheCursorOrIsNotUtf8) {
  EXPECT_EQ(printable("a\tb\n\033[31m\x7f", true), "a?b??[31m?");
  EXPECT_EQ(printable("\u00e9\U0001f600", true), "\u00e9\U0001f600");
  EXPECT_EQ(printable("\u00e9\U0001f600", false), "??");
  EXPECT_EQ(printable("\xc2\x9b\xe2\x80\xae", true), "??");               // CSI, direction override
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80\xc3", true), "???????");  // broken, long, lone
  EXPECT_EQ(printable(std::string_view("\0", 1), true), "?");
}

TEST(Printable, WidthAndShorteningCountCodePoints) {
  EXPECT_EQ(width_of("\u00e9x\U0001f600"), 3U);
  EXPECT_EQ(shortened("abcdef", 6, false), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4, false), "abc~");
  EXPECT_EQ(shortened("\u00e9\u00e9\u00e9", 2, true), "\u00e9\u2026");
  EXPECT_EQ(shortened("abc", 0, false), "");
}

TEST(Wrapped, EndsLinesAfterWordsAndLeavesNothingOut) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("", 4), Lines{""});
  EXPECT_EQ(wrapped("one two", 7), Lines{"one two"});
  EXPECT_EQ(wrapped("one two", 6), (Lines{"one", "two"}));
  EXPECT_EQ(wrapped("8x128 x=normal(sigma=30)", 18), (Lines{"8x128", "x=normal(sigma=30)"}));
  EXPECT_EQ(wrapped("bf16:fp32:bf16", 10), (Lines{"bf16:fp32:", "bf16"}));
  EXPECT_EQ(wrapped("segmented_sum", 10), (Lines{"segmented_", "sum"}));
  EXPECT_EQ(wrapped("abcdefgh", 3), (Lines{"abc", "def", "gh"}));
  EXPECT_EQ(wrapped("\u00e9\u00e9\u00e9", 2), (Lines{"\u00e9\u00e9", "\u00e9"}));
  EXPECT_EQ(longest_piece("8x128 x=normal(sigma=30)"), 7U);
}

}  // namespace
}  // namespace opbound
