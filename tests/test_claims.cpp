// Claims: files are read strictly, verdicts follow from figures on both sides of every rule, a
// wrong figure turns one, and records do not say what does not follow from them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/ledger.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::claims {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Figure exact(std::string name, double value) {
  return {std::move(name), value, value, value, "", ""};
}
Figure between(double value, double low, double high) { return {"x", value, low, high, "", ""}; }

Outcome compare(const Figure& figure, Comparison comparison, const std::string& operand) {
  Claim claim;
  claim.tests.push_back({"so", false, "x", comparison, operand});
  return judge(claim, std::vector{figure}).outcomes.front();
}

class ClaimsReader : public TemporaryFolder {
 protected:
  /// What a file of these lines is refused with.
  std::string refusal(const std::string& lines) const {
    const std::string file = put("claims.toml", lines);
    return refused([&] { read_claims(file); });
  }
};

const std::string good =
    "[[claim]]\nid = \"X1\"\nclaim = \"so\"\n[[claim.run]]\nexperiment = \"arithmetic\"\n"
    "of = \"1 + 2\"\n[[claim.test]]\nif = \"so\"\nfigure = \"result\"\nis = \"3\"\n";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = good;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST_F(ClaimsReader, RefusesWithOneLineThatSaysWhere) {
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(changed("is = \"3\"", "iss = \"3\"")),
            "claims.toml:10: unknown key 'iss' (is?), expected one of if, itself, figure, equals, "
            "is, is_not, above, below, at_least, at_most");
  EXPECT_EQ(refusal(changed("is = \"3\"", "")),
            "claims.toml:7: test: no comparison, expected one of equals, is, is_not, above, below, "
            "at_least, at_most");
  EXPECT_EQ(refusal(changed("is = \"3\"", "is = \"3\"\nabove = \"2\"")),
            "claims.toml:7: test: more than one comparison, expected one of equals, is, is_not, "
            "above, below, at_least, at_most");
  EXPECT_EQ(refusal(changed("is = \"3\"", "is = \"3x\"")),
            "claims.toml:10: is: '3x', expected a number such as 0.012 or 2.1e-4");
  EXPECT_EQ(refusal(changed("of = \"1 + 2\"", "of = 3")),
            "claims.toml:6: of: a whole number, expected a string");
  EXPECT_NE(refusal(changed("\"arithmetic\"", "\"arithmetics\""))
                .find("claims.toml:5: experiment: unknown experiment 'arithmetics' (arithmetic?)"),
            std::string::npos);
  EXPECT_EQ(refusal(changed("of = ", "off = ")),
            "claims.toml:6: unknown key 'off' (of?), expected one of experiment, as, of");
  EXPECT_EQ(refusal(changed("if = ", "itself = \"so\"\nif = ")),
            "claims.toml:7: test: both 'if' and 'itself', expected one of them");
  EXPECT_NE(refusal(good + good).find("claim X1 is at"), std::string::npos);
  EXPECT_NE(refusal("[[claim]]\nid = \"X\"\nclaim = \"so\"\n").find("nothing that decides it"),
            std::string::npos);
  EXPECT_NE(refusal(changed("id = \"X1\"\n", "id = \"X1\"\nnot_run = \"why\"\n"))
                .find("a claim that is and is not run"),
            std::string::npos);
}

TEST_F(ClaimsReader, APrintedNumberIsAllThatRoundsToIt) {
  const Printed small = printed_number("0.012");
  EXPECT_EQ(small.value, 0.012);
  EXPECT_EQ(small.low, 0.012 - 5e-4);
  EXPECT_EQ(small.high, 0.012 + 1e-3);
  EXPECT_EQ(printed_number("2.1e-4").high, 2.1e-4 + 1e-5);
  EXPECT_EQ(printed_number("50000").low, 49999.5);
  EXPECT_EQ(printed_number("-17").low, -18);
  EXPECT_EQ(printed_number("-17").high, -16.5);
  EXPECT_EQ(printed_number("inf").low, infinity);
  EXPECT_THROW(printed_number("0.01.2"), InputError);
  EXPECT_THROW(printed_number("nan"), InputError);
  EXPECT_FALSE(looks_like_number("factor"));
}

TEST(ClaimsVerdict, EveryComparisonHasBothSidesAndAMiddle) {
  using enum Comparison;
  EXPECT_EQ(compare(exact("x", 0.0129), equals, "0.012"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", 0.0116), equals, "0.012"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", 0.0131), equals, "0.012"), Outcome::fails);
  EXPECT_EQ(compare(exact("x", 0.0114), equals, "0.012"), Outcome::fails);
  EXPECT_EQ(compare(between(0.0129, 0.0128, 0.0132), equals, "0.012"), Outcome::open);
  EXPECT_EQ(compare(exact("x", 0), is, "0"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", 1e-300), is, "0"), Outcome::fails);
  EXPECT_EQ(compare(between(0, -1, 1), is, "0"), Outcome::open);
  EXPECT_EQ(compare(exact("x", 1e-300), is_not, "0"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", 0), is_not, "0"), Outcome::fails);
  EXPECT_EQ(compare(exact("x", 2), above, "2"), Outcome::fails);
  EXPECT_EQ(compare(exact("x", 2.1), above, "2"), Outcome::holds);
  EXPECT_EQ(compare(between(2.1, 1.9, 2.3), above, "2"), Outcome::open);
  EXPECT_EQ(compare(exact("x", 2), below, "2"), Outcome::fails);
  EXPECT_EQ(compare(exact("x", 1.9), below, "2"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", infinity), below, "inf"), Outcome::fails);
  EXPECT_EQ(compare(exact("x", 2), at_least, "2"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", 1.9), at_least, "2"), Outcome::fails);
  EXPECT_EQ(compare(exact("x", 2), at_most, "2"), Outcome::holds);
  EXPECT_EQ(compare(exact("x", 2.1), at_most, "2"), Outcome::fails);
  for (const Comparison c : {equals, is, above, below, at_least, at_most})
    EXPECT_EQ(compare(exact("x", std::nan("")), c, "1"), Outcome::fails);
}

/// One test for each figure, which holds where it is above 0.
Judged judged(const std::vector<double>& values, bool last_is_about_itself = false,
              double uncertainty = 0) {
  Claim claim;
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string name = "f";
    name += std::to_string(i);
    figures.push_back({name, values[i], values[i] - uncertainty, values[i] + uncertainty, "", ""});
    claim.tests.push_back({"condition " + name, last_is_about_itself && i + 1 == values.size(),
                           name, Comparison::above, "0"});
  }
  return judge(claim, figures);
}

TEST(ClaimsVerdict, FollowsFromTheTestsThatHold) {
  EXPECT_EQ(judged({1, 1}).verdict, ClaimVerdict::confirmed);
  EXPECT_EQ(judged({-1, -1}).verdict, ClaimVerdict::refuted);
  EXPECT_EQ(judged({-1, 1, 1}).verdict, ClaimVerdict::holds_only_if);
  EXPECT_EQ(judged({-1, 1, 1}).because, "condition f1; or condition f2");
  EXPECT_EQ(judged({1, 1}, true).verdict, ClaimVerdict::confirmed);
  EXPECT_EQ(judged({1, -1}, true).verdict, ClaimVerdict::contradicts_itself);
  EXPECT_EQ(judged({1, -1}, true).because, "condition f1");
  EXPECT_EQ(judged({1, -1}, false, 2).verdict, ClaimVerdict::not_testable_here);
  EXPECT_NE(judged({1, -1}, false, 2).because.find("f0 lies between"), std::string::npos);
  Claim absent;
  EXPECT_EQ(judge(absent, {}, "no GPU").because, "no GPU");
  EXPECT_EQ(judge(absent, {}, "no GPU").verdict, ClaimVerdict::not_testable_here);
}

TEST(ClaimsVerdict, AFigureThatNobodyGaveIsTheFilesMistake) {
  Claim claim;
  claim.place = "c.toml:3";
  claim.tests.push_back({"so", false, "y", Comparison::is, "1"});
  EXPECT_THROW(judge(claim, std::vector{exact("x", 1)}), InputError);
}

TEST(ClaimsFigures, AMeanHasStudentsInterval) {
  Measured m;
  m.add_mean("same", std::vector{2.0, 2.0, 2.0}, "");
  EXPECT_EQ(m.figures.back().low, m.figures.back().high);
  m.add_mean("two", std::vector{1.0, 3.0}, "");
  EXPECT_EQ(m.figures.back().value, 2);
  // Of two samples t has one degree of freedom, whose quantile is tan(pi (1/2 - alpha / 2)).
  const double t = 1 / std::tan(std::acos(-1.0) * interval_alpha / 2);
  EXPECT_EQ(static_cast<float>((m.figures.back().high - 2) / t), 1);
}

std::vector<Claim> all_committed() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(OPBOUND_SOURCE_DIR "/suites/claims"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  return read_claims(files);
}

/// One of the committed claims.
Claim committed(const std::string& id) {
  for (Claim& c : all_committed())
    if (c.id == id) return c;
  ADD_FAILURE() << id;
  return {};
}

TEST(Claims, ThreeCheapOnesFromTheirFilesToTheirVerdicts) {
  Laboratory laboratory;
  const ClaimRecord bits = examine(committed("C05"), laboratory);
  EXPECT_EQ(bits.judged.verdict, ClaimVerdict::refuted);
  EXPECT_EQ(bits.found.front().figures[1].value, 3);
  EXPECT_EQ(examine(committed("C42"), laboratory).judged.verdict, ClaimVerdict::contradicts_itself);
  const ClaimRecord trip = examine(committed("C06"), laboratory);
  EXPECT_EQ(trip.judged.verdict, ClaimVerdict::holds_only_if);
  EXPECT_EQ(trip.found.front().figures.front().value, 0);
}

TEST(Claims, EveryRowIsThereWithAVerdictOrAReason) {
  std::set<std::string> ids;
  for (const Claim& c : all_committed()) {
    EXPECT_EQ(c.not_run.empty(), !c.tests.empty()) << c.id;
    EXPECT_TRUE(ids.insert(c.id).second) << c.id << " is there twice";
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(ledger_rows));
  EXPECT_EQ(*ids.begin(), "C01");
  EXPECT_EQ(*ids.rbegin(), "C" + std::to_string(ledger_rows));
}

TEST(Claims, AWrongFigureTurnsAVerdict) {
  Laboratory laboratory;
  ClaimRecord record = examine(committed("C05"), laboratory);
  for (Figure& f : record.found.front().figures)
    if (f.name == "exponent_bits_more") f = exact(f.name, 1);
  EXPECT_EQ(judge(record.claim, figures_of(record)).verdict, ClaimVerdict::confirmed);
}

/// The engine's own result is wrong: a rank's stream that nobody waits for, a missing rank's NaN.
TEST(Claims, AWrongEngineTurnsAVerdict) {
  Laboratory laboratory;
  Claim waits = committed("C46");
  EXPECT_EQ(examine(waits, laboratory).judged.verdict, ClaimVerdict::confirmed);
  for (auto& [name, value] : waits.runs.front().parameters)
    if (name == "unwaited") value = std::string("layer3 layer99");
  EXPECT_NE(examine(waits, laboratory).judged.verdict, ClaimVerdict::confirmed);
  Claim spreads = committed("C23");
  EXPECT_EQ(examine(spreads, laboratory).judged.verdict, ClaimVerdict::confirmed);
  for (auto& [name, value] : spreads.runs.front().parameters)
    if (name == "planted") value = false;
  EXPECT_NE(examine(spreads, laboratory).judged.verdict, ClaimVerdict::confirmed);
}

/// One fault in place of ten: the audit names a few operations, the right one among them.
TEST(Claims, AnAuditLeavesFewOperationsToSuspectAndALossLeavesAll) {
  Laboratory laboratory;
  Claim fewer = committed("C54");
  for (claims::Run& run : fewer.runs)
    for (auto& [name, value] : run.parameters)
      if (name == "faults") value = std::string("rotated_query_gradient");
  const ClaimRecord record = examine(fewer, laboratory);
  std::map<std::string, double> figures;
  for (const Figure& f : figures_of(record)) figures[f.name] = f.value;
  EXPECT_EQ(figures.at("audit.found"), 1);
  EXPECT_EQ(figures.at("audit.misled"), 0);
  EXPECT_LT(figures.at("audit.left"), 0.1);
  EXPECT_EQ(figures.at("loss.left"), 1);
}

TEST(Claims, WhatNeedsAGpuSaysSo) {
  Laboratory laboratory;
  const ClaimRecord heated = examine(committed("C21"), laboratory);
  EXPECT_EQ(heated.judged.verdict, ClaimVerdict::not_testable_here);
  EXPECT_NE(heated.judged.because.find("a GPU, whose temperature"), std::string::npos);
}

TEST(Claims, ARecordIsReadBackAndSaysNothingThatDoesNotFollow) {
  Laboratory laboratory;
  const ClaimRecord record = examine(committed("C11"), laboratory);
  const std::string line = to_json(record);
  EXPECT_EQ(to_json(claim_from_json(line, "f", 1)), line);
  const std::string verdict(name_of(record.judged.verdict));
  std::string tampered = line;
  tampered.replace(tampered.find("\"verdict\":\"") + 11, verdict.size(), "confirmed");
  EXPECT_THROW(claim_from_json(tampered, "f", 1), InputError);
  EXPECT_THROW(claim_from_json("{}", "f", 1), InputError);
  EXPECT_THROW(claim_from_json("[", "f", 1), InputError);
  const ClaimRecord absent = examine(committed("C21"), laboratory);
  EXPECT_EQ(to_json(claim_from_json(to_json(absent), "f", 1)), to_json(absent));
}

TEST(Claims, APageIsMadeOfRecordsAlone) {
  Laboratory laboratory;
  const std::vector<ClaimRecord> records{examine(committed("C05"), laboratory),
                                         examine(committed("C42"), laboratory)};
  const std::string page = claims_page(records);
  EXPECT_NE(page.find("### C42"), std::string::npos);
  EXPECT_NE(page.find("contradicts itself"), std::string::npos);
  EXPECT_EQ(last_line(records),
            "confirmed 0, holds only if 0, refuted 1, contradicts itself 1, not testable here 0");
}

}  // namespace
}  // namespace opbound::claims
