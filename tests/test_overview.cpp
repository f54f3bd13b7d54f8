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
  EXPECT_EQ(overview_table(records, {TableStyle::csv, false, {}}),
            "op,precision,variants,checks,elements,within,vacuous,other,largest ratio,"
            "acceptable mean/max,max ulp,bias ulp,bits as on the host\n"
            "gelu,fp32,1,1,10,0,,1,,,,,\n"
            "softmax,bf16,1,1,10,0,1,,,,,,\n"
            "softmax,fp32,1,2,20,2,,,0.50,1.00/2.00,0.25,-0.12,1 of 1\n");
}

TEST(Overview, EndsWithTheLastLine) {
  const std::vector<Record> records{record("gelu", "fp32", Verdict::within, 0.5)};
  const std::string text = overview_table(records, {TableStyle::markdown, false, {}});
  EXPECT_TRUE(text.starts_with("| op")) << text;
  EXPECT_TRUE(text.ends_with(last_line(summary_of(records)) + "\n")) << text;
}

}  // namespace
}  // namespace opbound
