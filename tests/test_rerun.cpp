// From a record back to its check, and the magnifying glass: every step returns where it began.
#include "suites/rerun.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ops/precision.hpp"
#include "suites/probe.hpp"
#include "suites/run.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

/// Every 11th case of all suites of the project.
std::vector<CaseSpec> some_cases() {
  std::vector<CaseSpec> cases;
  for (const auto& entry : fs::directory_iterator(fs::path(OPBOUND_SOURCE_DIR) / "suites")) {
    if (entry.path().extension() != ".toml") continue;
    const Suite suite = read_suite(entry.path().string());
    for (std::size_t i = 0; i < suite.cases.size(); i += 11) cases.push_back(suite.cases[i]);
  }
  return cases;
}

std::string texts_of(const std::vector<std::pair<std::string, InputSpec>>& inputs) {
  std::string text;
  for (const auto& [tensor, input] : inputs) text.append(tensor + "=" + to_string(input) + " ");
  return text;
}

TEST(Rerun, a_record_leads_back_to_its_case) {
  const auto provider = own_host_provider();
  for (const CaseSpec& spec : some_cases()) {
    const CaseSpec again = spec_of(record_of(spec, *provider));
    EXPECT_EQ(again.op, spec.op);
    EXPECT_EQ(texts_of(again.inputs), texts_of(spec.inputs));  // a value may be NaN
    if (spec.declared == std::vector<int>{spec.variant}) {
      EXPECT_EQ(identity(again), identity(spec));
    }
  }
}

using RerunText = TemporaryFolder;

TEST_F(RerunText, holds_the_case_and_nothing_else) {
  for (const CaseSpec& spec : some_cases()) {
    const Suite suite = read_suite(put(std::string(spec.op->name) + ".toml", suite_text(spec)));
    ASSERT_EQ(suite.cases.size(), 1U);
    EXPECT_EQ(identity(suite.cases[0]), identity(spec));
  }
}

TEST(Probe, ordinals_are_consecutive_and_return_to_their_values) {
  for (const Format& f : all_formats) {
    const std::int64_t top = ordinal_of(f, f.largest());
    EXPECT_EQ(value_of(f, 1), f.smallest_subnormal());
    for (std::int64_t step = 0; step < std::min<std::int64_t>(top, 300); ++step)
      for (const std::int64_t o : {step, -step, top - step, step - top}) {
        const double x = value_of(f, o);
        EXPECT_EQ(round_to(f, x), x);
        EXPECT_EQ(ordinal_of(f, x), o);
      }
    EXPECT_EQ(value_of(f, ordinal_of(f, 1) + 1), 1 + ulp(f, 1));
  }
}

// Against the judge itself, asked for every value of e4m3 and e5m2.
TEST(Probe, accepted_values_are_those_that_the_judge_accepts) {
  for (const Format& f : {e4m3, e5m2})
    for (const bool rounds : {false, true})
      for (const double exact : {0.0, 0.013, 1.0, -1.03, 3.14159, -200.5, 0x1p-12})
        for (const double bound : {0.002, 0.01, 0.3, 20.0}) {
          const Exact y{exact, 0, 0, Exact::Class::finite};
          const Accepted a = accepted_values(y, bound, {f, rounds});
          const std::int64_t top = ordinal_of(f, f.largest());
          for (std::int64_t o = -top; o <= top; ++o) {
            const double s = value_of(f, o);
            const bool exceeds =
                judge(y, bound, INFINITY, s, {f, rounds}).verdict == Verdict::exceeds;
            EXPECT_EQ(exceeds, s < a.lowest || s > a.highest)
                << name_of(f) << " " << exact << " " << bound << " " << s;
          }
        }
}

TEST(Probe, rounding_and_method_add_up_to_the_error) {
  Probed e;
  e.got = 1.5;
  e.exact = {1.25, 0, 0, Exact::Class::finite};
  e.without_rounding = {1.375, 0, 0, Exact::Class::finite};
  const ErrorSplit split = split_error(e, fp32);
  EXPECT_EQ(split.total_ulp, 0x1p+21);
  EXPECT_EQ(split.rounding_ulp, 0x1p+20);
  EXPECT_EQ(split.method_ulp, 0x1p+20);
  e.got = INFINITY;
  EXPECT_TRUE(std::isnan(split_error(e, fp32).total_ulp));
}

}  // namespace
}  // namespace opbound
