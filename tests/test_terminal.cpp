// What is drawn on a terminal, and what is not drawn elsewhere: a terminal of the test's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "reports/progress.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A terminal of the test's own; what is drawn on `inside` is read from `outside`.
class PseudoTerminal : public testing::Test {
 protected:
  void SetUp() override {
    outside_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (outside_ < 0 || grantpt(outside_) != 0 || unlockpt(outside_) != 0)
      GTEST_SKIP() << "no pseudo-terminals here";
    inside_ = open(ptsname(outside_), O_RDWR | O_NOCTTY);
    if (inside_ < 0) GTEST_SKIP() << "no pseudo-terminals here";
    set_columns(120);
    set("COLUMNS", "");
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_)
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    close(inside_);
    close(outside_);
  }

  void set_columns(unsigned short columns) const {
    winsize size{};
    size.ws_col = columns;
    ASSERT_EQ(ioctl(inside_, TIOCSWINSZ, &size), 0);
  }
  void set(const std::string& name, const char* value) {
    const char* old = std::getenv(name.c_str());
    saved_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    setenv(name.c_str(), value, 1);
  }
  std::string drawn() const {
    fcntl(outside_, F_SETFL, O_NONBLOCK);
    std::array<char, 4096> bytes{};
    std::string text;
    for (ssize_t n = 0; (n = read(outside_, bytes.data(), bytes.size())) > 0;)
      text.append(bytes.data(), static_cast<std::size_t>(n));
    return text;
  }

  int outside_ = -1;
  int inside_ = -1;
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST_F(PseudoTerminal, ColourAndUnicodeFollowTheEnvironment) {
  for (const char* name : {"LC_CTYPE", "NO_COLOR"}) set(name, "");
  set("TERM", "xterm");
  set("LC_ALL", "");
  set("LANG", "de_DE.UTF-8");
  EXPECT_TRUE(Terminal::of(inside_).unicode);
  EXPECT_TRUE(Terminal::of(inside_).colour);
  set("LC_ALL", "C");
  EXPECT_FALSE(Terminal::of(inside_).unicode);
  set("LC_ALL", "C.utf8");
  EXPECT_TRUE(Terminal::of(inside_).unicode);
  set("NO_COLOR", "1");
  EXPECT_FALSE(Terminal::of(inside_).colour);
  set("NO_COLOR", "");
  set("TERM", "dumb");
  EXPECT_FALSE(Terminal::of(inside_).colour);
}

TEST_F(PseudoTerminal, WidthIsTakenBetween60And240) {
  for (const auto& [columns, expected] : {std::pair<unsigned short, std::size_t>{20, 60},
                                          {80, 80},
                                          {200, 200},
                                          {300, 240},
                                          {0, 160}}) {
    set_columns(columns);
    EXPECT_EQ(Terminal::of(inside_).columns, expected);
  }
}

TEST_F(PseudoTerminal, ColumnsCountWhereThereIsNoWidth) {
  set("COLUMNS", "100");
  EXPECT_EQ(Terminal::of(inside_).columns, 120U) << "a terminal has one";
  set_columns(0);
  EXPECT_EQ(Terminal::of(inside_).columns, 100U);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  for (const auto& [columns, expected] :
       {std::pair<const char*, std::size_t>{"100", 100}, {"20", 60}, {"1000", 240}}) {
    set("COLUMNS", columns);
    EXPECT_EQ(Terminal::of(ends[1]).columns, expected);
  }
  for (const char* no_width : {"", "0", "-80", "80x", "wide", "99999999999999999999"}) {
    set("COLUMNS", no_width);
    EXPECT_GT(Terminal::of(ends[1]).columns, 1000U) << "as wide as it needs";
  }
  for (const int end : ends) close(end);
}

TEST_F(PseudoTerminal, ProgressDrawsRarelyAndWipesItsLine) {
  {
    Progress progress(1000, "gelu", inside_);
    for (int i = 0; i < 1000; ++i) progress.advance(1, "fp32 64x1000");
  }
  const std::string text = drawn();
  EXPECT_TRUE(contains(text, "gelu [")) << text;
  EXPECT_TRUE(contains(text, "fp32 64x1000")) << text;
  EXPECT_TRUE(text.ends_with("\r\033[K")) << text;
  EXPECT_LT(text.size(), 100U * 50U) << "1000 steps within a moment are a few drawings";
}

TEST_F(PseudoTerminal, ProgressWithoutStepsDrawsNothing) {
  { Progress progress(0, "gelu", inside_); }
  EXPECT_EQ(drawn(), "");
}

TEST(Progress, IsSilentElsewhere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    Progress progress(2, "gelu", ends[1]);
    progress.advance();
    progress.advance(5);  // more than there is
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  const Terminal file = Terminal::of(ends[0]);
  EXPECT_FALSE(file.colour || file.unicode);
}

TEST(Progress, LineShowsShareCountAndTimeLeft) {
  EXPECT_EQ(progress_line("gelu", 0, 4, 0.0, "", 79), "gelu [>                       ]   0%  0/4");
  EXPECT_EQ(progress_line("gelu", 2, 4, 10.0, "fp32", 79),
            "gelu [============>           ]  50%  2/4  11 s left  fp32");
  EXPECT_EQ(progress_line("gelu", 1, 4, 100.0, "", 79),
            "gelu [======>                 ]  25%  1/4  6 min left");
  EXPECT_EQ(progress_line("gelu", 4, 4, 20.0, "", 79), "gelu [========================] 100%  4/4");
  EXPECT_EQ(progress_line("gelu", 0, 0, 0.0, "", 79), "gelu [========================] 100%  0/0");
  EXPECT_EQ(progress_line("gelu", 2, 4, 10.0, "a\nb\u00e9", 200).find('\n'), std::string::npos);
  EXPECT_EQ(width_of(progress_line("gelu", 2, 4, 10.0, std::string(200, 'w'), 60)), 60U);
}

}  // namespace
}  // namespace opbound
