// The overview table: what records of one op and precision say together.
#include <gtest/gtest.h>

#include "reports/table.hpp"

namespace opbound {
namespace {

Record record(const char* op, const char* precision, Verdict verdict, double ratio) {
  Record r;
  r.op = op;
  r.precision = precision;
  r.variant = "v";
  r.verdict = verdict;
  r.counts.checked = 10;
  r.ratio = ratio;
  r.acceptable_mean = 1;
  r.acceptable_max = 2;
  r.error_ulp_max = ratio / 2;
  r.bias_ulp = -ratio / 4;
  return r;
}

TEST(Overview, OneRowForAnOpAndAPrecision) {
  std::vector<Record> records{record("softmax", "fp32", Verdict::within, 0.5),
                              record("softmax", "fp32", Verdict::within, 0.25),
                              record("softmax", "bf16", Verdict::vacuous, 0),
                              record("gelu", "fp32", Verdict::exceeds, 9)};
  records.push_back(record("softmax", "fp32", Verdict::within, 0));
  records.back().kind = CheckKind::agreement;
  EXPECT_EQ(
      overview_table(records, {TableStyle::terminal, false, {}}),
      "op       precision  variants  checks  elements  within  vacuous  other  largest ratio  "
      "acceptable mean/max  max ulp  bias ulp  bits as on the host\n" +
          std::string(146, '-') +
          "\n"
          "gelu     fp32              1       1        10       0               1\n" +
          std::string(146, '-') +
          "\n"
          "softmax  bf16              1       1        10       0        1\n"
          "softmax  fp32              1       2        20       2                           "
          "0.50            1.00/2.00     0.25     -0.12               1 of 1\n\n" +
          last_line(summary_of(records)) + "\n");
}

const std::string csv_titles =
    "op,part,direction,variant,precision,attributes,variants,checks,elements,failed,exceeds,"
    "undecided,vacuous,skipped,within,ratio,acceptable_mean,acceptable_max,error_ulp_max,"
    "bias_ulp,agreements,agreeing\n";

/// Every verdict has a column, zeros are written, numbers are not rounded.
TEST(Overview, CsvIsInFull) {
  std::vector<Record> records{record("softmax", "fp32", Verdict::within, 0.1 + 0.2),
                              record("softmax", "bf16", Verdict::vacuous, 0),
                              record("softmax", "bf16", Verdict::skipped, 0),
                              record("gelu", "fp32", Verdict::exceeds, 9)};
  records[0].counts.checked = 123456789;
  records.push_back(record("softmax", "fp32", Verdict::within, 0));
  records.back().kind = CheckKind::agreement;
  EXPECT_EQ(overview_table(records, {TableStyle::csv, false, {.columns = 60}}),
            csv_titles +
                "gelu,,,,fp32,,1,1,10,0,1,0,0,0,0,,,,,,0,0\n"
                "softmax,,,,bf16,,1,2,20,0,0,0,1,1,0,,,,,,0,0\n"
                "softmax,,,,fp32,,1,1,123456789,0,0,0,0,0,1,0.30000000000000004,1,2,"
                "0.15000000000000002,-0.07500000000000001,1,1\n");
}

TEST(Overview, OfAllHasARowForWhateverTellsRecordsApartButTheirCase) {
  std::vector<Record> records(5, record("gelu", "fp32", Verdict::within, 0.5));
  for (Record& r : records) r.attributes = {{"approximate", "none"}};
  records[1].part = "y";
  records[2].direction = "forward";
  records[3].variant = "w";
  records[4].attributes = {{"approximate", "tanh"}};
  records.push_back(records[4]);
  records.back().inputs.seed = 2;
  const std::string numbers = "1,2,0.25,-0.125,0,0\n", one = ",1,1,10,0,0,0,0,0,1,0.5,";
  EXPECT_EQ(overview_table(records, {TableStyle::csv, true, {}}),
            csv_titles + "gelu,,,v,fp32,approximate=none" + one + numbers +
                "gelu,,,v,fp32,approximate=tanh,1,2,20,0,0,0,0,0,2,0.5," + numbers +
                "gelu,,,w,fp32,approximate=none" + one + numbers +
                "gelu,,forward,v,fp32,approximate=none" + one + numbers +
                "gelu,y,,v,fp32,approximate=none" + one + numbers);
  const std::string text = overview_table(records, {TableStyle::terminal, true, {}});
  EXPECT_NE(text.find("gelu" + std::string(19, ' ') + "v        fp32       approximate=tanh"),
            std::string::npos)
      << text;
}

TEST(Overview, NarrowOnesKeepVerdictsRatioAndWhatIsAcceptable) {
  const std::vector<Record> records{record("segmented_sum", "bf16:fp32:bf16", Verdict::within, 0.5),
                                    record("softmax", "bf16", Verdict::vacuous, 0)};
  const std::string text = overview_table(records, {TableStyle::terminal, false, {.columns = 80}});
  for (const char* kept :
       {"segmented_sum  bf16:fp32:bf16", "within  vacuous", "  0.50  ", "  1.00/2.00"})
    EXPECT_NE(text.find(kept), std::string::npos) << text;
  EXPECT_NE(text.find("too narrow for: [variants] [elements] [bias ulp] [checks]\n"),
            std::string::npos)
      << text;
}

TEST(Overview, EndsWithTheLastLine) {
  const std::vector<Record> records{record("gelu", "fp32", Verdict::within, 0.5)};
  const std::string text = overview_table(records, {TableStyle::markdown, false, {}});
  EXPECT_TRUE(text.starts_with("| op")) << text;
  EXPECT_TRUE(text.ends_with(last_line(summary_of(records)) + "\n")) << text;
}

}  // namespace
}  // namespace opbound
