// What a comparison looks like: rows and their order, numbers, and a page that stands alone.
#include "reports/compare_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <sstream>

#include "tests/compared_records.hpp"

namespace opbound {
namespace {

using Records = std::vector<Record>;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Record of(const std::string& op, const std::string& variant = "erfc") {
  Record r = check_record();
  r.op = op;
  r.variant = variant;
  return r;
}

Record with_error(Record r, double ulp) {
  r.error_ulp_max = ulp;
  return with_other_bits(r);
}

/// Every class of change: two checks of gelu are alike, of softmax one is broken, and so on.
class Comparing : public testing::Test {
 protected:
  Comparing() {
    const auto both = [&](const Record& a, const Record& b) {
      before_.push_back(a);
      after_.push_back(b);
    };
    both(of("gelu"), of("gelu"));
    both(of("gelu", "tanh"), of("gelu", "tanh"));
    both(of("bias"), with_other_bits(of("bias")));
    both(of("cast"), with_error(of("cast"), 0.6));
    both(of("matmul"), with_error(of("matmul"), 0.9));
    both(of("matmul", "split_k"), with_error(of("matmul", "split_k"), 12));
    both(of("softmax"), with_verdict(with_error(of("softmax"), 3), Verdict::exceeds));
    both(of("softmax", "online"), of("softmax", "online"));
    both(of("rope"), with_verdict(of("rope"), Verdict::skipped));
    before_.push_back(of("clip"));
    after_.push_back(of("adamw"));
    for (Record& r : after_) r.environment = {{"cudnn", "9.19"}};
    for (Record& r : before_) r.environment = {{"cudnn", "9.14"}};
    comparison_ = compare(before_, after_);
    comparison_.old_name = "old.jsonl";
    comparison_.new_name = "new.jsonl";
  }

  std::string table(TableStyle style, bool all = false, bool changed = false,
                    Terminal terminal = {false, false, 240}) const {
    return compare_table(comparison_, {{style, all, terminal}, changed});
  }

  Records before_, after_;
  Comparison comparison_;
};

TEST_F(Comparing, TheLastLineCountsEveryChange) {
  EXPECT_EQ(last_line(comparison_),
            "contract broken 1, worse 2, better 1, same error 1, same bits 3; only in old 1, only "
            "in new 1, skipped 1 (1 of them ran in old)");
  EXPECT_TRUE(table(TableStyle::terminal).ends_with(last_line(comparison_) + "\n"));
}

TEST_F(Comparing, WhatIsBrokenOrWorseStandsFirst) {
  const std::vector<CompareRow> rows = rows_of(comparison_, false);
  std::vector<std::string> ops;
  for (const CompareRow& row : rows) ops.push_back(row.shown->shown().op);
  EXPECT_EQ(ops, (std::vector<std::string>{"softmax", "matmul", "gelu", "bias", "cast", "rope",
                                           "clip", "adamw"}));
  EXPECT_EQ(rows[0].change(), Change::contract_broken);
  EXPECT_EQ(rows[0].checks.size(), 2U);
  EXPECT_EQ(rows[0].same_bits, 1U);
  // of two that are worse the one whose error grew more
  EXPECT_EQ(rows[1].shown->shown().variant, "split_k");
}

TEST_F(Comparing, TheTableNamesWhatDiffersAndHowMuch) {
  const std::string text = table(TableStyle::terminal);
  EXPECT_TRUE(text.starts_with("old: old.jsonl\nnew: new.jsonl\ndiffers: cudnn 9.14 -> 9.19\n\n"))
      << text;
  for (const char* part : {"within -> exceeds", "0.75 -> 12.00", "0.75 -> 0.60", "same error",
                           "only in old", "only in new", "y split_k 100 x=normal"})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  EXPECT_FALSE(contains(text, "\033")) << "colour is for terminals";
  EXPECT_TRUE(contains(table(TableStyle::terminal, false, false, {true, true, 240}), "\033[1;31m"));
  EXPECT_TRUE(contains(table(TableStyle::markdown), "| within \u2192 exceeds |"));
  EXPECT_TRUE(table(TableStyle::markdown).starts_with("- old: old.jsonl\n"));
}

TEST_F(Comparing, RowsWithoutAChangeAreLeftOutWhereAsked) {
  const std::string text = table(TableStyle::terminal, false, true);
  EXPECT_FALSE(contains(text, "\ngelu")) << text;
  EXPECT_FALSE(contains(text, "\nrope")) << text;
  EXPECT_TRUE(contains(text, "\nbias")) << "other bits are a change";
  EXPECT_TRUE(contains(text, "2 rows without a change are not shown\n")) << text;
}

TEST_F(Comparing, AllGivesEveryCheckARow) {
  EXPECT_EQ(rows_of(comparison_, true).size(), comparison_.checks.size());
  EXPECT_TRUE(contains(table(TableStyle::terminal, true), "y online 100 x=normal"));
}

TEST_F(Comparing, FitsNarrowTerminals) {
  for (std::size_t columns = 80; columns <= 240; columns += 8) {
    const std::string text = table(TableStyle::terminal, false, false, {false, false, columns});
    std::istringstream lines(text.substr(0, text.find("\ncontract broken")));
    for (std::string line; std::getline(lines, line);) ASSERT_LE(line.size(), columns) << line;
  }
}

TEST_F(Comparing, CsvHasEveryCheckAndItsNumbersInFull) {
  const std::string text = table(TableStyle::csv);
  EXPECT_EQ(count_of(text, "\n"), comparison_.checks.size() + 1);
  EXPECT_TRUE(text.starts_with("change,by,kind,op,part,direction,variant,precision,attributes,"));
  EXPECT_TRUE(contains(text,
                       "\nworse,max ulp,bound,matmul,y,forward,split_k,bf16:fp32:bf16,"
                       "approximate=none,100,x=normal,1,own,cpu,1,within,0.75,0.5,0.01,0.25,"
                       "100,sum64:0000000000000001,,1,within,12,0.5,0.01,0.25,100,sum64:2,\n"))
      << text;
  EXPECT_TRUE(contains(text, "\nonly in old,,bound,clip,")) << text;
  const std::string line = text.substr(text.find("\nonly in old") + 1);
  EXPECT_EQ(count_of(line.substr(0, line.find('\n')), ","), 31U);
}

TEST(ChangeText, NumbersThatLookAlikeShowTheirDifference) {
  using detail::change_text;
  EXPECT_EQ(change_text(0.5, 0.71, "->"), "0.50 -> 0.71");
  EXPECT_EQ(change_text(0.5, 0.5, "->"), "0.50");
  EXPECT_EQ(change_text(1.46, 1.46 + 0x1p-40, "->"), "1.46 (+9.1e-13)");
  EXPECT_EQ(change_text(1.46 + 0x1p-40, 1.46, "->"), "1.46 (-9.1e-13)");
  EXPECT_EQ(change_text({}, {}, "->"), "");
  EXPECT_EQ(change_text({}, 2.0, "->"), "none -> 2.00");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(change_text(1.0, inf, "->"), "1.00 -> inf");
  EXPECT_EQ(change_text(inf, inf, "->"), "inf");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(change_text(nan, nan, "->"), "nan");
}

// ---- the page

TEST_F(Comparing, ThePageStandsAlone) {
  const std::string page = compare_page(comparison_);
  EXPECT_TRUE(page.starts_with("<!doctype html>\n"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  for (const char* foreign : {"http", "<script", "<link", "@import", "url("})
    EXPECT_FALSE(contains(page, foreign)) << foreign;
  EXPECT_TRUE(contains(page, "<h1>cudnn 9.14 \u2192 9.19</h1>"));
  EXPECT_TRUE(contains(page, last_line(comparison_)));
  EXPECT_TRUE(contains(page, "<summary>2 rows without a change</summary>"));
  for (const char* element : {"table", "tr", "td", "svg", "div", "p", "h2", "span", "details", "g"})
    EXPECT_EQ(count_of(page, "<" + std::string(element) + ">") +
                  count_of(page, "<" + std::string(element) + " "),
              count_of(page, "</" + std::string(element) + ">"))
        << element;
}

TEST_F(Comparing, ThePlotHasAPointForEveryKindOfChange) {
  const std::string page = compare_page(comparison_);
  // two checks of gelu and one of softmax share a point; so does nothing else
  EXPECT_EQ(count_of(page, "<circle "), 6U);
  EXPECT_TRUE(contains(page, "0.75 -&gt; 12.00 ulp, worse</title>")) << page;
  EXPECT_TRUE(contains(page, "same bits (one of 3)</title>"));
}

TEST(Page, WordsOfAFileAreOnlyWords) {
  Records before{check_record()}, after{check_record()};
  for (Records* records : {&before, &after}) {
    records->front().op = "<script>alert(1)</script>";
    records->front().inputs.input = "a\"b&c\x01";
  }
  after[0] = with_error(after[0], 9);
  Comparison c = compare(before, after);
  c.old_name = "</style><b>";
  const std::string page = compare_page(c);
  EXPECT_FALSE(contains(page, "<script"));
  EXPECT_FALSE(contains(page, "<b></p>"));
  EXPECT_TRUE(contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_TRUE(contains(page, "a&quot;b&amp;c?"));
}

TEST(Page, ErrorsWithoutEndAndWithoutNumbersHaveAPlace) {
  Records before, after;
  for (const double error : {0.0, 1e-300, 1e300, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    before.push_back(with_error(of("op" + std::to_string(before.size())), error));
    after.push_back(with_error(before.back(), 1.0));
    after.back().ulp_histogram.counts.assign(64, 1);
  }
  before.push_back(of("no errors"));
  before.back().error_ulp_max.reset();
  after.push_back(before.back());
  const std::string page = compare_page(compare(before, after));
  static const std::regex not_a_number("=\"[^\"]*(nan|inf)[^\"]*\"");
  EXPECT_FALSE(std::regex_search(page, not_a_number));
  EXPECT_GE(count_of(page, "<circle "), 2U);
}

}  // namespace
}  // namespace opbound
