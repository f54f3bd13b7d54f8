// What explain says of a record.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "reports/record.hpp"
#include "tests/random_record.hpp"

namespace opbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(PrintRecord, ShowsEveryFieldOfAFullRecord) {
  RandomRecord random(5);
  for (int i = 0; i < 50; ++i) {
    const Record r = random.make();
    const std::string text = print_record(r);
    auto json = nlohmann::ordered_json::parse(to_json(r));
    for (const auto& [name, value] : json.items())
      EXPECT_NE(text.find(name == "worst" ? "worst element" : "\n  " + name), std::string::npos)
          << name;
    EXPECT_EQ(text.find('\0'), std::string::npos);
  }
}

TEST(PrintRecord, SaysWhyAnElementExceeds) {
  Record r = small_record();
  r.verdict = Verdict::exceeds;
  r.counts = {.within = 1, .exceeds = 1, .checked = 2};
  r.ratio = 3.0;
  // bf16 has 8 digits: 1 - 0x1p-6 and 1 + 0x1p-6 are its values, 1 +- 0x1p-10 round to 1.
  r.worst = Worst{1, {{"x", 1.5}}, 1.25, 1.0, 1.0, 0x1p-10};
  const std::string text = print_record(r);
  EXPECT_NE(text.find("1 of 2 elements have an error larger than the bound"), std::string::npos)
      << text;
  EXPECT_NE(text.find("got lies outside [RN(low - bound), RN(high + bound)] = [1, 1]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("it would just pass with 3 times its bound"), std::string::npos) << text;
  EXPECT_NE(text.find("1.25 (0x1.4p+0)"), std::string::npos) << text;
  EXPECT_NE(text.find("input x"), std::string::npos) << text;
}

TEST(PrintRecord, NamesTheRoundingOnlyWhereTheStoreIsOne) {
  Record r = small_record();
  r.worst = Worst{0, {}, 1.0, 1.0, 1.0, 0.25};
  EXPECT_NE(print_record(r).find("got lies in [RN(high - bound), RN(low + bound)] = [0.75, 1.25]"),
            std::string::npos);
  for (const char* precision : {"fp32", "bf16", "bf16:fp32:fp32", "fp32:fp16:fp32", "x", "a:b:c"}) {
    r.precision = precision;
    EXPECT_NE(print_record(r).find("got lies in [high - bound, low + bound] = [0.75, 1.25]"),
              std::string::npos)
        << precision;
  }
  r.precision = "fp64";
  EXPECT_NE(print_record(r).find("fp64 outputs are judged by got - exact"), std::string::npos);
}

TEST(PrintRecord, OverflowOfE4m3IsJudgedAsInfinity) {
  Record r = small_record();
  r.precision = "e4m3:fp32:e4m3";
  r.worst = Worst{0, {}, infinity, 1000.0, 1000.0, 584.0};
  EXPECT_NE(print_record(r).find("= [416, inf]"), std::string::npos) << print_record(r);
  EXPECT_NE(print_record(r).find("inf (inf), stored as NaN"), std::string::npos);
}

TEST(PrintRecord, SaysWhatUndecidedAndInfiniteBoundsMean) {
  Record r = small_record();
  r.verdict = Verdict::undecided;
  r.counts = {.within = 1, .undecided = 1, .checked = 2};
  r.worst = Worst{0, {}, 1.0, 0.5, 1.5, 0.625};
  EXPECT_NE(print_record(r).find("whether it is within depends on where"), std::string::npos);
  r.worst->bound = infinity;
  EXPECT_NE(print_record(r).find("every value of got would pass"), std::string::npos);
}

TEST(PrintRecord, ForeignWordsCannotMoveTheCursorOrStartALine) {
  Record r = small_record();
  r.reason = "x\033[2J\nverdict  within";
  const std::string text = print_record(r);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(text.find("x?[2J?verdict  within"), std::string::npos) << text;
}

}  // namespace
}  // namespace opbound
