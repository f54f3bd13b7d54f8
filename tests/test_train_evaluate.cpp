// Two models compared on prompts: against models made by hand, of which everything is known.
#include "distributed/train/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "ops/philox.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

// ---- the distance of two distributions

std::vector<double> random_row(std::uint64_t stream, std::size_t n, double scale) {
  std::vector<double> row;
  for (std::size_t i = 0; i < n; ++i)
    row.push_back(scale * (philox_word(1, stream, i) * 0x1p-31 - 1));
  return row;
}

/// Straight from the definition, in the format with more digits that the host has.
long double plain_kl(const std::vector<double>& a, const std::vector<double>& b) {
  const auto log_sum = [](const std::vector<double>& x) {
    long double sum = 0;
    for (const double v : x) sum += std::exp(static_cast<long double>(v));
    return std::log(sum);
  };
  const long double za = log_sum(a), zb = log_sum(b);
  long double kl = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    kl += std::exp(a[i] - za) * ((a[i] - za) - (b[i] - zb));
  return kl;
}

TEST(KullbackLeibler, IsThatOfTheDefinition) {
  // One bit against another: KL = p ln(p/q) + (1 - p) ln((1 - p)/(1 - q)), p = 1/2, q = 1/5.
  const double expected = 0.5 * std::log(2.5) + 0.5 * std::log(0.5 / 0.8);
  const double found = kl_nats(std::vector{0.0, 0.0}, std::vector{0.0, std::log(4.0)});
  EXPECT_LE(std::abs(found - expected), 16 * std::numeric_limits<double>::epsilon());
  for (std::uint64_t stream = 0; stream < 50; ++stream) {
    const auto a = random_row(2 * stream, 100, 8), b = random_row(2 * stream + 1, 100, 8);
    // Each logarithm is at most 16 + ln 100, its error a few roundings of that, and shares sum
    // to 1.
    EXPECT_LE(std::abs(kl_nats(a, b) - plain_kl(a, b)),
              200 * 32 * std::numeric_limits<double>::epsilon());
  }
}

TEST(KullbackLeibler, IsZeroForEqualRowsAndNeverNegative) {
  for (std::uint64_t stream = 0; stream < 50; ++stream) {
    auto a = random_row(stream, 257, 30), b = a;
    EXPECT_EQ(kl_nats(a, b), 0);
    for (double& x : b) x = std::nextafter(x, 100.0);
    EXPECT_GE(kl_nats(a, b), 0);
  }
}

// Near each other KL is half the variance of the difference, a square: what the plain formula gives
// there is rounding. A change of 2^-30 in one of two equal shares gives 2^-63.
TEST(KullbackLeibler, KeepsItsDigitsWhereRowsAreNear) {
  const double found = kl_nats(std::vector{0.0, 0.0}, std::vector{0.0, 0x1p-30});
  EXPECT_GT(found, 0x1p-63 * (1 - 0x1p-20));
  EXPECT_LT(found, 0x1p-63 * (1 + 0x1p-20));
}

TEST(KullbackLeibler, FarLogitsAreNoNaN) {
  EXPECT_EQ(kl_nats(std::vector{0.0, -1e300}, std::vector{0.0, -1e300}), 0);
  EXPECT_TRUE(std::isfinite(kl_nats(std::vector{1e300, 0.0}, std::vector{1e300, 5.0})));
  EXPECT_GT(kl_nats(std::vector{0.0, 0.0}, std::vector{0.0, -1000.0}), 499);
  EXPECT_TRUE(std::isfinite(kl_nats(std::vector{0.0, -1000.0}, std::vector{0.0, 0.0})));
}

// ---- models made by hand

/// Its next token is a function of the last one: logit 1 for that, 0 for all others.
EvaluatedModel counting_model(const std::string& name,
                              const std::function<std::int64_t(std::int64_t)>& next,
                              std::int64_t context = 8, std::int64_t batch = 3) {
  EvaluatedModel m{name, context, 256, batch, {}};
  m.logits = [=](std::span<const Tokens> sequences, bool only_last) {
    EXPECT_LE(sequences.size(), static_cast<std::size_t>(batch));
    std::vector<std::vector<double>> rows;
    for (const Tokens& s : sequences) {
      EXPECT_TRUE(!s.empty() && std::cmp_less_equal(s.size(), context));
      auto& row = rows.emplace_back();
      for (std::size_t t = only_last ? s.size() - 1 : 0; t < s.size(); ++t) {
        row.resize(row.size() + 256, 0);
        row[row.size() - 256 + static_cast<std::size_t>(next(s[t]))] = 1;
      }
    }
    return rows;
  };
  return m;
}

const auto one_more = [](std::int64_t t) { return (t + 1) % 256; };

std::vector<Prompt> some_prompts() {
  return {
      {"five", {5}}, {"nine", {9}}, {"up", {1, 2, 3, 4}}, {"long", Tokens(20, 7)}, {"last", {0}}};
}

TEST(Evaluate, AModelIsEqualToItself) {
  const EvaluatedModel m = counting_model("m", one_more);
  const Evaluation e = evaluate(m, m, some_prompts());
  ASSERT_EQ(e.prompts.size(), 5U);
  // From 5: 6, 7, 8, 9, and then the newline. From 9 nothing.
  EXPECT_EQ(e.prompts[0], (PromptResult{.name = "five",
                                        .positions = 1,
                                        .top1_equal = 1,
                                        .length_a = 4,
                                        .length_b = 4,
                                        .equal_tokens = 4}));
  EXPECT_EQ(e.prompts[1].length_a, 0);
  EXPECT_EQ(e.prompts[3].positions, 8);  // the context
  const EvaluationTotals t = totals_of(e.prompts);
  EXPECT_EQ(t.all.kl_sum_nats, 0);
  EXPECT_EQ(t.top1_share(), 1);
  EXPECT_EQ(t.equal_lengths, 5);
  EXPECT_EQ(t.length_deviation_mean, 0);
}

TEST(Evaluate, WhatDiffersIsCounted) {
  // After 7, b goes to 12 and never comes to the newline; else both are equal.
  const EvaluatedModel a = counting_model("a", one_more);
  const EvaluatedModel b =
      counting_model("b", [](std::int64_t t) { return t == 7 ? 12 : one_more(t); });
  const Evaluation e = evaluate(a, b, some_prompts(), {.most_tokens = 10});
  const PromptResult &five = e.prompts[0], &lasting = e.prompts[3], &up = e.prompts[2];
  EXPECT_EQ(five.length_a, 4);
  EXPECT_EQ(five.length_b, 10);
  EXPECT_EQ(five.equal_tokens, 2);  // 6, 7
  EXPECT_EQ(five.top1_equal, 1);
  EXPECT_EQ(five.kl_sum_nats, 0);
  EXPECT_EQ(up.top1_equal, 4);
  EXPECT_EQ(lasting.top1_equal, 0);
  // e/z at one place and 1/z at another, exchanged: KL = (e - 1)/z, z = e + 255; eight times.
  const double once = (std::exp(1.0) - 1) / (std::exp(1.0) + 255);
  EXPECT_LE(std::abs(lasting.kl_max_nats - once), 300 * std::numeric_limits<double>::epsilon());
  double sum = 0;
  for (int t = 0; t < 8; ++t) sum += lasting.kl_max_nats;
  EXPECT_EQ(lasting.kl_mean_nats(), sum / 8);
  const EvaluationTotals t = totals_of(e.prompts);
  EXPECT_EQ(t.all.positions, 1 + 1 + 4 + 8 + 1);
  EXPECT_EQ(t.all.top1_equal, 7);
  EXPECT_EQ(t.equal_lengths, 1);
  // a: 4 0 5 2 9; b: 10 0 10 10 10.
  EXPECT_EQ(t.length_change_mean, (6 + 0 + 5 + 8 + 1) / 5.0);
  EXPECT_EQ(t.length_deviation_mean, t.length_change_mean);
  const EvaluationTotals back =
      totals_of(evaluate(b, a, some_prompts(), {.most_tokens = 10}).prompts);
  EXPECT_EQ(back.length_change_mean, -t.length_change_mean);
  EXPECT_EQ(back.length_deviation_mean, t.length_deviation_mean);
}

TEST(Evaluate, TheSizeOfACallDoesNotMatter) {
  const auto odd = [](std::int64_t t) { return t % 3 == 0 ? 200 : one_more(t); };
  const Evaluation one =
      evaluate(counting_model("a", one_more, 8, 1), counting_model("b", odd), some_prompts());
  const Evaluation all = evaluate(counting_model("a", one_more, 8, 100),
                                  counting_model("b", odd, 8, 100), some_prompts());
  EXPECT_EQ(one.prompts, all.prompts);
}

TEST(Evaluate, TheShorterContextHolds) {
  const Evaluation e =
      evaluate(counting_model("a", one_more, 3), counting_model("b", one_more, 9), some_prompts());
  EXPECT_EQ(e.prompts[2].positions, 3);
  EXPECT_EQ(e.prompts[3].positions, 3);
}

// A planted NaN is counted, is in no mean, and ends what is generated.
TEST(Evaluate, NaNIsCountedAndNoMore) {
  const EvaluatedModel a = counting_model("a", one_more);
  EvaluatedModel b = a;
  b.logits = [a](std::span<const Tokens> sequences, bool only_last) {
    auto rows = a.logits(sequences, only_last);
    for (std::size_t s = 0; s < rows.size(); ++s)
      for (std::size_t r = 0; r < rows[s].size() / 256; ++r)
        if (sequences[s][only_last ? sequences[s].size() - 1 : r] == 3)
          rows[s][256 * r + 100] = std::numeric_limits<double>::quiet_NaN();
    return rows;
  };
  const Evaluation e = evaluate(a, b, some_prompts());
  EXPECT_EQ(e.prompts[2].nonfinite, 1);
  EXPECT_EQ(e.prompts[2].positions, 3);
  EXPECT_EQ(e.prompts[2].kl_sum_nats, 0);
  EXPECT_EQ(e.prompts[4].length_a, 9);
  EXPECT_EQ(e.prompts[4].length_b, 3);
  EXPECT_EQ(totals_of(e.prompts).all.nonfinite, 1);
  const std::string table = evaluation_table(e, Terminal{});
  EXPECT_NE(table.find("not finite"), std::string::npos);
}

TEST(Evaluate, OfEqualLogitsTheFirstIsTaken) {
  EvaluatedModel flat{"flat", 4, 5, 1, [](std::span<const Tokens> s, bool only_last) {
                        return std::vector<std::vector<double>>{
                            std::vector<double>(only_last ? 5 : 5 * s[0].size(), 2.5)};
                      }};
  EXPECT_EQ(evaluate(flat, flat, std::vector<Prompt>{{"x", {1}}}, {.most_tokens = 3, .stop = 0})
                .prompts[0]
                .length_a,
            0);
}

TEST(Evaluate, WhatCannotBeComparedIsOneLine) {
  const EvaluatedModel a = counting_model("a", one_more);
  EvaluatedModel b = counting_model("b", one_more);
  b.vocabulary = 300;
  const auto refusal = [&](const EvaluatedModel& other, const Prompt& p) {
    try {
      evaluate(a, other, std::vector{p});
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(b, {"x", {1}}), "b: 300 tokens in its vocabulary, expected 256 as in a");
  EXPECT_EQ(refusal(a, {"x", {256}}), "prompt 'x': token 256, expected 0 to 255");
}

TEST(Evaluate, TheTableShowsTheWorst) {
  const EvaluatedModel a = counting_model("a", one_more);
  const EvaluatedModel b =
      counting_model("b", [](std::int64_t t) { return t == 77 ? 12 : one_more(t); });
  std::vector<Prompt> prompts;
  for (std::int64_t t = 60; t < 90; ++t) prompts.push_back({"p" + std::to_string(t), {t}});
  const Evaluation e = evaluate(a, b, prompts, {.most_tokens = 1});
  const std::string table = evaluation_table(e, Terminal{}),
                    every = evaluation_table(e, Terminal{}, true);
  EXPECT_LT(table.find("all 30"), table.find("p77"));
  EXPECT_LT(table.find("p77"), table.find("p60"));
  EXPECT_EQ(table.find("p89"), std::string::npos);
  EXPECT_NE(every.find("p89"), std::string::npos);
  EXPECT_NE(table.find("shown: the 10 prompts with the largest mean"), std::string::npos) << table;
}

// ---- the prompts

class Prompts : public TemporaryFolder {
 protected:
  std::string refusal(const std::string& text) const {
    const std::string file = put("p.toml", text);
    try {
      read_prompts(file);
    } catch (const InputError& e) {
      const std::string line = e.what();
      EXPECT_TRUE(line.starts_with(file)) << line;
      return line.substr(std::min(line.size(), file.size()));
    }
    return "";
  }
};

TEST_F(Prompts, AreBytes) {
  const auto prompts = read_prompts(put("p.toml",
                                        "prompts = [\n"
                                        "{name = \"a\", text = \"\\u00e9\\n\", repeat = 2},\n"
                                        "{name = \"b\", bytes = [0, 255]}]\n"));
  ASSERT_EQ(prompts.size(), 2U);
  EXPECT_EQ(prompts[0].tokens, (Tokens{0xc3, 0xa9, 10, 0xc3, 0xa9, 10}));
  EXPECT_EQ(prompts[1].tokens, (Tokens{0, 255}));
}

TEST_F(Prompts, WhatIsNoneIsOneLine) {
  EXPECT_NE(refusal("prompts = []"), "");
  EXPECT_NE(refusal("prompts = 3"), "");
  EXPECT_NE(refusal("prompt = [{name = \"a\", text = \"b\"}]"), "");
  EXPECT_NE(refusal("prompts = [{text = \"b\"}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\"}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", text = \"\"}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", bytes = [256]}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", bytes = [-1]}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", text = \"b\", bytes = [1]}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", text = \"b\", repeat = 0}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", text = \"b\", repeat = 65537}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", text = \"b\", many = 1}]"), "");
  EXPECT_NE(refusal("prompts = [{name = \"a\", text = \"b\"}, {name = \"a\", text = \"c\"}]"), "");
  EXPECT_EQ(refusal("prompts = [{name = \"a\", text = \"b\"}]"), "");
}

TEST(CornerCases, AreOneHundred) {
  const auto prompts =
      read_prompts(std::string(OPBOUND_SOURCE_DIR) + "/suites/prompts/corner_cases.toml");
  EXPECT_EQ(prompts.size(), 100U);
  std::set<std::int64_t> bytes;
  std::set<Tokens> different;
  for (const Prompt& p : prompts) {
    bytes.insert(p.tokens.begin(), p.tokens.end());
    different.insert(p.tokens);
  }
  EXPECT_EQ(different.size(), 100U);
  EXPECT_TRUE(bytes.contains(0) && bytes.contains(255) && bytes.contains(128));
}

/// What is told while it runs only rises, and ends at the total, also where all prompts end early.
TEST(Evaluate, ProgressEndsAtItsTotal) {
  const EvaluatedModel a = counting_model("a", one_more);
  const auto prompts = static_cast<std::int64_t>(some_prompts().size());
  for (const std::int64_t most : {10, 1}) {  // most end before, or none does
    std::int64_t last = 0, told_total = 0;
    EvaluationOptions how;
    how.most_tokens = most;
    how.on_progress = [&](std::int64_t done, std::int64_t total, std::string_view) {
      EXPECT_GE(done, last);
      last = done;
      told_total = total;
    };
    evaluate(a, a, some_prompts(), how);
    EXPECT_EQ(told_total, 2 * prompts * (1 + most));
    EXPECT_EQ(last, told_total) << most;
  }
}

}  // namespace
}  // namespace opbound::train
