// opbound report as a user runs it: of a pair of training runs, with everything that there is.
#include <regex>

#include "tests/page_check.hpp"
#include "tests/program.hpp"
#include "tests/tiny_run.hpp"

namespace opbound {
namespace {

using Lines = std::vector<std::string>;

class ProgramReport : public Program {
 protected:
  void SetUp() override {
    put("text.txt", tiny_text());
    put("tiny.toml", tiny_run("policy = \"bf16\"\nsteps = 60\nmicro_batches = 2"));
  }
  void train(const std::string& words) const {
    const Ran ran = opbound("train tiny.toml --quiet " + words);
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  std::string report(const std::string& words) const {
    const Ran ran = opbound("report " + words);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static std::string row_of(const std::string& page, const std::string& indicator) {
    const auto at = page.find(">" + indicator + "</th>");
    if (at == std::string::npos) return "no such indicator";
    const std::string row = page.substr(at + 1, page.find("</tr>", at) - at - 1);
    return std::regex_replace(row, std::regex("<[^>]*>"), "|");
  }
};

TEST_F(ProgramReport, OfAPairOfRunsWithAllThatThereIs) {
  train("--log a.jsonl --trace a.trace --trace-full 20 --trace-prompts 20 --sentinel");
  train(
      "--policy fp32 --log b.jsonl --trace b.trace --trace-full 20 --trace-prompts 20 --sentinel "
      "--audit 30 --audit-out audit.jsonl");
  EXPECT_EQ(opbound("attribute a.jsonl --step 0 --step 2 --quiet --swap matmul=fp32 --out "
                    "attribution.jsonl")
                .code,
            0);
  const std::string page = report(
      "a.jsonl b.jsonl a.trace b.trace audit.jsonl attribution.jsonl --try 1 --html page.html; "
      "cat page.html");
  EXPECT_EQ(page_mistakes(page), Lines());
  EXPECT_EQ(faint_colours(page), Lines());
  EXPECT_TRUE(contains(row_of(page, "fingerprint cosine"), "no limit"));
  EXPECT_TRUE(contains(row_of(page, "fingerprint distance of each parameter"), "--twins"));
  EXPECT_TRUE(contains(row_of(page, "KL divergence after the prompts"), " nats"));
  EXPECT_TRUE(contains(row_of(page, "rolling deviation of the loss"), "times the limit"));
  EXPECT_TRUE(contains(row_of(page, "coefficient of variation of gradient norms"), "variation"));
  EXPECT_TRUE(contains(row_of(page, "unattributed share of the loss's error"), "pass"));
  EXPECT_TRUE(contains(row_of(page, "audit of the run's calls"), "pass"));
  EXPECT_TRUE(contains(row_of(page, "lost updates"), "% of a parameter"));
  EXPECT_TRUE(contains(page, "<li>policy.name bf16 / fp32</li>"));
  EXPECT_TRUE(contains(page, "No call is known that gave other bits"));  // of other formats
  EXPECT_TRUE(contains(page, "matmul=fp32"));
  EXPECT_TRUE(contains(page, "<code>op = &quot;"));
  EXPECT_TRUE(contains(page, "deviation of the gradient, relative to its norm"));
  EXPECT_TRUE(std::regex_search(
      page, std::regex("<td class=\"h[1-5]\"><a href=\"#class-1-[0-9]+\">[0-9.]+%</a></td>")));
  EXPECT_TRUE(std::regex_search(
      page, std::regex("<td class=\"h5\"><a href=\"#distance-[0-9]+\">[0-9.e-]+</a></td>")));
}

TEST_F(ProgramReport, TwinsGiveThePairItsLimits) {
  const std::string name = "fingerprint distance of each parameter";
  const auto pair_of = [&](const std::string& policy) {
    const std::string steps = "--steps 6 --policy " + policy + " --trace ";
    train(steps + policy + "a.trace");
    std::string twins = " --twins";
    for (const char* i : {"1", "2", "3", "4"}) {
      const std::string file = policy + "t" + i + ".trace";
      train(steps + file + " --twin " + i);
      if (i != std::string("4")) twins += " " + file;
    }
    return std::pair(policy + "a.trace ", twins);
  };
  const auto [fine, fine_twins] = pair_of("fp32");
  const std::string good = report(fine + "fp32t4.trace" + fine_twins);
  EXPECT_TRUE(contains(row_of(good, name), "0 of 6 steps beyond||pass")) << row_of(good, name);
  EXPECT_TRUE(contains(row_of(good, "difference of the losses"), "by the twins"));
  // Two twins in bf16 give limits that no distance reaches: that is no pass.
  const std::string coarse = pair_of("bf16").first;
  const std::string idle =
      row_of(report(coarse + "bf16t4.trace --twins bf16t1.trace bf16t2.trace"), name);
  EXPECT_TRUE(contains(idle, "at 6 no distance reaches the limit")) << idle;
  EXPECT_FALSE(contains(idle, "|pass|")) << idle;
  const std::string bad = report(fine + coarse + fine_twins);
  EXPECT_TRUE(contains(row_of(bad, name), "not passed")) << row_of(bad, name);
  EXPECT_EQ(page_mistakes(bad), Lines());
}

TEST_F(ProgramReport, OfTheSameRunTwiceEveryBitAgrees) {
  train("--steps 3 --trace a.trace");
  train("--steps 3 --trace b.trace");
  const std::string same = report("a.trace b.trace");
  EXPECT_TRUE(contains(row_of(same, "fingerprint cosine"), "every bit"));
  EXPECT_TRUE(contains(row_of(same, "fingerprint cosine"), "pass"));
  train("--steps 3 --seed 2 --trace c.trace");
  const std::string other = report("a.trace c.trace");
  EXPECT_TRUE(contains(row_of(other, "texts and random numbers of the pair"), "not passed"));
}

TEST_F(ProgramReport, TakesNoFilesPlaceThatIsNoPage) {
  train("--steps 2 --trace a.trace");
  const std::string before = get("a.trace");
  EXPECT_TRUE(contains(refusal("report a.trace --html a.trace"), "a.trace: there is a file"));
  EXPECT_TRUE(contains(refusal("report a.trace --pdf a.trace"), "a.trace: there is a file"));
  EXPECT_EQ(get("a.trace"), before);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(opbound("report a.trace --html page.html").code, 0);
}

TEST_F(ProgramReport, ASentinelThatWasNotThereHasNotPassed) {
  train("--steps 2 --trace a.trace");
  const std::string name = "alarms of the sentinel";
  EXPECT_FALSE(contains(row_of(report("a.trace"), name), "|pass|"));
  train("--steps 2 --sentinel --trace b.trace");
  EXPECT_TRUE(contains(row_of(report("a.trace b.trace"), name), "0 in 1 of 2 runs watched||pass"))
      << row_of(report("a.trace b.trace"), name);
}

TEST_F(ProgramReport, ARunThatBlowsUpDoesNotPass) {
  train("--steps 6 --log run.jsonl");
  std::string log = get("run.jsonl");
  const auto at = log.find("\"loss\":", log.find("\"step\":4"));
  ASSERT_NE(at, std::string::npos);
  log = std::regex_replace(log, std::regex("(\"step\":4,\"loss\":)[^,]*(,\"loss_hex\":)[^,]*"),
                           "$1\"nan\"$2\"nan\"");
  put("blown.jsonl", log.substr(0, log.find("{\"schema\":1,\"kind\":\"training_result")));
  const std::string page = report("blown.jsonl");
  EXPECT_TRUE(contains(row_of(page, "losses and norms that are not finite"),
                       "1 of 6 steps||not passed||step 4"))
      << row_of(page, "losses and norms that are not finite");
  EXPECT_TRUE(contains(row_of(page, "runs that did not finish"), "1||not passed"));
  EXPECT_TRUE(contains(row_of(report("run.jsonl"), "runs that did not finish"), "0||pass"));
}

TEST_F(ProgramReport, AnAttributionThatDoesNotAddUpDoesNotPass) {
  train("--steps 2 --log a.jsonl");
  EXPECT_EQ(opbound("attribute a.jsonl --step 1 --micro-batch 0 --quiet --out x.jsonl").code, 0);
  const std::string name = "unattributed share of the loss's error";
  EXPECT_TRUE(contains(row_of(report("x.jsonl"), name), "pass"));
  put("y.jsonl", std::regex_replace(get("x.jsonl"), std::regex("\"unattributed\":[^,]*,\"root"),
                                    "\"unattributed\":1.5,\"root"));
  EXPECT_TRUE(contains(row_of(report("y.jsonl"), name), "not passed"));
}

TEST_F(ProgramReport, OnPaperNeedsABrowserAndSaysSo) {
  train("--steps 2 --log a.jsonl");
  const Ran none = shell("PATH=/nowhere " OPBOUND_PROGRAM " report a.jsonl --pdf a.pdf");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err,
            "opbound: --pdf: no browser that prints, expected chromium or google-chrome in PATH; "
            "any browser prints the page of --html\n");
  if (shell("command -v chromium || command -v google-chrome").code != 0)
    GTEST_SKIP() << "no browser here";
  EXPECT_EQ(opbound("report a.jsonl --pdf a.pdf").code, 0);
  EXPECT_TRUE(get("a.pdf").starts_with("%PDF-"));
}

TEST_F(ProgramReport, RefusesWhatItCannotTellOf) {
  put("other", "{\"schema\":1,\"kind\":\"weather\"}\n");
  EXPECT_TRUE(contains(refusal("report other"), "kind 'weather'"));
  EXPECT_TRUE(contains(refusal("report missing.jsonl"), "missing.jsonl"));
  train("--steps 1 --trace a.trace");
  EXPECT_TRUE(contains(refusal("report a.trace a.trace a.trace"), "a third trace"));
  EXPECT_TRUE(contains(refusal("report a.trace --twins a.trace"), "1 traces to compare"));
  EXPECT_TRUE(contains(refusal("report a.trace --html nowhere/page.html"), "cannot be written"));
}

}  // namespace
}  // namespace opbound
