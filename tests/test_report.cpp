// A report's page: what it says of records, and whether everybody can use it.
#include "reports/report/report.hpp"

#include <gtest/gtest.h>

#include <ranges>

#include "ops/op.hpp"
#include "reports/history.hpp"
#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/report/record_list.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"
#include "tests/compared_records.hpp"
#include "tests/page_check.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::report {
namespace {

using Lines = std::vector<std::string>;

/// What the dashboard says of an indicator: its row without tags.
std::string row_of(const std::string& page, const std::string& indicator) {
  const auto at = page.find(">" + indicator + "</th>");
  if (at == std::string::npos) return "no such indicator";
  const std::string row = page.substr(at + 1, page.find("</tr>", at) - at - 1);
  return std::regex_replace(row, std::regex("<[^>]*>"), "|");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Inputs of(std::vector<std::vector<Record>> files) {
  Inputs inputs;
  for (auto& records : files)
    inputs.records.push_back(
        {"run" + std::to_string(inputs.records.size()) + ".jsonl", std::move(records)});
  return inputs;
}

std::string page_of(const Inputs& inputs) { return report_page(inputs, {}); }

Record audited(Record r) {
  r.in_situ = InSitu{3, 0, 1, 27};
  return r;
}

TEST(Report, OfNothingButRecordsHasEveryPartAndNoEmptyCell) {
  const std::string page = page_of(of({{check_record()}}));
  EXPECT_EQ(page_mistakes(page), Lines());
  EXPECT_EQ(faint_colours(page), Lines());
  for (const char* id : {"dashboard", "suggestions", "heat", "pair", "training", "alarms", "nodes",
                         "errors", "upgrade", "faults", "claims", "environment", "files"})
    EXPECT_TRUE(contains(page, "<h2 id=\"" + std::string(id) + "\">")) << id;
  EXPECT_TRUE(contains(page, "opbound attribute LOG.jsonl"));
}

TEST(Report, EqualInputsGiveEqualBytes) {
  const Inputs inputs = of({{check_record(), with_verdict(check_record(), Verdict::exceeds)}});
  EXPECT_EQ(page_of(inputs), page_of(inputs));
}

TEST(Report, ARunWithinItsBoundsPasses) {
  const std::string page = page_of(of({{check_record()}}));
  EXPECT_TRUE(contains(row_of(page, "largest error over its bound"), "0.50||pass"));
  EXPECT_TRUE(contains(row_of(page, "exceeds"), "0 of 1||pass"));
  EXPECT_TRUE(contains(row_of(page, "fingerprint cosine"), "not run"));
  EXPECT_GE(
      std::count(page.begin(), page.begin() + static_cast<long>(page.find("id=\"heat\"")), '\n'),
      12);
}

TEST(Report, WhatIsWrongFailsItsIndicatorAndLeadsToItsRecord) {
  struct Planted {
    const char* indicator;
    Record record;
  };
  std::vector<Planted> all;
  Record r = with_verdict(check_record(), Verdict::exceeds);
  r.ratio = 8.5;
  all.push_back({"largest error over its bound", r});
  all.push_back({"exceeds", r});
  all.push_back({"audit of the run's calls", audited(r)});
  for (const auto& [verdict, name] : {std::pair(Verdict::failed, "failed"),
                                      {Verdict::undecided, "undecided"},
                                      {Verdict::vacuous, "vacuous"}})
    all.push_back({name, with_verdict(check_record(), verdict)});
  r = check_record();
  r.nonfinite_mismatch = 7;
  all.push_back({"NaN or infinity where there should be none, or the reverse", r});
  r = check_record();
  r.kind = CheckKind::statistical;
  r.p_value = 1e-9;
  r.alpha = 1e-6;
  all.push_back({"p-value below its level", r});
  for (const Planted& p : all) {
    const std::string page = page_of(of({{check_record(), p.record}}));
    EXPECT_TRUE(contains(row_of(page, p.indicator), "not passed")) << row_of(page, p.indicator);
    EXPECT_TRUE(contains(page, "<a href=\"#record-1-2\">")) << p.indicator;
    EXPECT_EQ(page_mistakes(page), Lines()) << p.indicator;
  }
}

TEST(Report, VacuousByNameAndSkippedFailNothing) {
  const std::string page =
      page_of(of({{with_verdict(check_record(), Verdict::vacuous, "a known case"),
                   with_verdict(check_record(), Verdict::skipped)}}));
  EXPECT_TRUE(contains(row_of(page, "vacuous"), "0 of 2||pass"));
  EXPECT_TRUE(contains(row_of(page, "skipped"), "1 of 2||no limit"));
  EXPECT_FALSE(contains(page, "class=\"fail\">not passed"));
}

TEST(Report, BitsOfTwoDevicesAreCompared) {
  Record cuda = check_record();
  cuda.device = "NVIDIA H200";
  const char* name = "same bits on every device";
  EXPECT_TRUE(contains(row_of(page_of(of({{check_record()}})), name), "not run"));
  EXPECT_TRUE(contains(row_of(page_of(of({{check_record(), cuda}})), name), "1 of 1 outputs"));
  EXPECT_TRUE(contains(row_of(page_of(of({{check_record(), with_other_bits(cuda)}})), name),
                       "0 of 1 outputs||not passed"));
}

TEST(Report, TwoFilesAreAnUpgrade) {
  Record after = with_verdict(check_record(), Verdict::exceeds);
  after.environment = {{"cudnn", "9.19"}};
  Record before = check_record();
  before.environment = {{"cudnn", "9.14"}};
  const std::string page = page_of(of({{before}, {with_other_bits(after)}}));
  EXPECT_TRUE(contains(row_of(page, "contracts broken by the upgrade"), "1 of 1 checks"));
  EXPECT_TRUE(contains(page, "<li>cudnn 9.14 \u2192 9.19</li>"));
  EXPECT_EQ(page_mistakes(page), Lines());
}

TEST(Report, EveryOpAndPassIsANode) {
  const std::string page = page_of(of({{check_record()}}));
  const auto from = page.find("<h2 id=\"nodes\">");
  const std::string part = page.substr(from, page.find("</section>", from) - from);
  std::size_t nodes = 0;
  for (const Op& op : all_ops()) {
    nodes += op.backward ? 2 : 1;
    EXPECT_TRUE(contains(part, "<th scope=\"row\">" + std::string(op.name) + "</th>")) << op.name;
    if (op.name != "gelu") {
      EXPECT_TRUE(contains(part, "opbound run suites/" + std::string(op.name) + ".toml"));
    }
  }
  std::size_t rows = 0;
  for (auto at = part.find("scope=\"row\""); at != std::string::npos;
       at = part.find("scope=\"row\"", at + 1))
    ++rows;
  EXPECT_EQ(rows, nodes);
}

TEST(Report, WordsOfAFileAreOnlyWords) {
  Record r = with_verdict(check_record(), Verdict::failed);
  r.reason = "<script>alert(1)</script>";
  r.provider = "\"><b>";
  const std::string page = page_of(of({{r}}));
  EXPECT_EQ(page_mistakes(page), Lines());
  EXPECT_FALSE(contains(page, "<b>\""));
}

TEST(Report, TenThousandRecordsAreListedAndMoreAreNot) {
  std::vector<Record> records(10000, check_record());
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].inputs.seed = i;
    records[i].op = i % 2 == 0 ? "gelu" : "softmax";
  }
  const std::string page = page_of(of({records}));
  EXPECT_TRUE(contains(page, "id=\"record-1-10000\""));
  EXPECT_TRUE(contains(page, "<details><summary>5000 records of softmax</summary>"));
  records.insert(records.end(), most_listed, check_record());
  records[100] = with_verdict(records[100], Verdict::exceeds);
  const std::string brief = page_of(of({records}));
  EXPECT_TRUE(contains(brief, "id=\"record-1-101\""));
  EXPECT_FALSE(contains(brief, "id=\"record-1-5000\""));
  EXPECT_EQ(page_mistakes(brief), Lines());
}

TEST(Report, OnPaperNothingIsFoldedAway) {
  PageOptions options;
  options.is_for_paper = true;
  const std::string page = report_page(of({{check_record()}}), options);
  EXPECT_FALSE(contains(page, "<details>"));
  EXPECT_EQ(page_mistakes(page), Lines());
}

TEST(Report, WhatDidNotRunStandsApartAndCardsSayWhatTheyAreOf) {
  const std::string page = page_of(of({{check_record()}}));
  const auto fold = page.find("<details><summary>", page.find("id=\"dashboard\""));
  EXPECT_LT(page.find(">exceeds</th>"), fold);
  EXPECT_GT(page.find(">fingerprint cosine</th>"), fold);
  EXPECT_TRUE(contains(page, "<td data-of=\"target\">0 checks</td>"));
}

TEST(Report, WhatAllRowsOfAnOpSayStandsInItsCaptionOnce) {
  Record other = check_record();
  other.variant = "one_plus_erf";
  const std::string page = page_of(of({{check_record(), other}}));
  EXPECT_TRUE(contains(page,
                       "all: direction forward, precision bf16:fp32:bf16, provider own, "
                       "device cpu"));
  EXPECT_FALSE(contains(page, "<th scope=\"col\">provider</th>"));
  EXPECT_TRUE(contains(page, "<th scope=\"col\">variant</th>"));
}

TEST(Report, ABoundsSourceIsToldWithoutItsCountOfElements) {
  Record one = check_record(), two = check_record();
  one.bound_source = "running; a theorem for 12";
  two.bound_source = "running; a theorem for 13";
  EXPECT_TRUE(contains(page_of(of({{one, two}})),
                       "<td data-of=\"bound\">running; a theorem for some elements</td>"));
}

/// Classes of two layers, the first of which has made nine tenths of the error.
AttributionFile attributions(const std::string& path, double scale) {
  AttributionFile file{path, {}, {}, {}, {}};
  for (const std::int64_t step : {0, 1})
    for (const int layer : {0, 1}) {
      AttributedClass c;
      c.step = step;
      c.layer = layer;
      c.part = c.op = "matmul";
      c.pass = "forward";
      c.precision = "bf16:fp32:bf16";
      c.loss = scale * (layer == 0 ? 3 : 1);
      file.classes.push_back(c);
    }
  return file;
}

TEST(Report, EachRunOfAPairHasMapsOfItsOwn) {
  Inputs inputs;
  inputs.attributions = {attributions("a", 1), attributions("b", 1e6)};
  const std::string page = page_of(inputs);
  EXPECT_EQ(page_mistakes(page), Lines());
  // In either file layer 0 has 90% of all, and of each step; a step's shares have no sum.
  std::size_t cells = 0;
  for (auto at = page.find(">90.0%</a>"); at != std::string::npos;
       at = page.find(">90.0%</a>", at + 1))
    ++cells;
  EXPECT_EQ(cells, 2U * (2 + 2));
  EXPECT_FALSE(contains(page, ">180.0%</a>"));
}

TEST(Report, OnPaperManyRowsAreTheWorstOfEachOutputAndWhatFails) {
  std::vector<Record> records(most_rows_on_paper + 1, check_record());
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].variant = "v" + std::to_string(i);
    records[i].ratio = 0.1;
  }
  for (const std::size_t i : {9, 11}) records[i] = with_verdict(records[i], Verdict::exceeds);
  PageOptions options;
  options.is_for_paper = true;
  const std::string page = report_page(of({records}), options);
  EXPECT_EQ(page_mistakes(page), Lines());
  EXPECT_TRUE(contains(page, "1001 rows: on paper"));
  for (const char* cell : {"<td>v9</td>", "<td>v11</td>"}) EXPECT_TRUE(contains(page, cell));
  EXPECT_FALSE(contains(page, "<td>v8</td>"));
  EXPECT_TRUE(contains(page_of(of({records})), "<td>v8</td>"));
}

// ---- changes that are tried

/// GELU as 1 + erf, judged as if it were the erfc form: it exceeds, and both mistakes have a cure.
Record wrongly_declared() {
  Record r = check_record();
  r.inputs = {{{"n", 500}}, "x=normal(mean=-3)", 1};
  CaseSpec spec = spec_of(r);
  const auto& variants = spec.op->variants;
  spec.variant =
      static_cast<int>(std::find_if(variants.begin(), variants.end(),
                                    [](const auto& v) { return v.name == "one_plus_erf"; }) -
                       variants.begin());
  const auto provider = own_host_provider();
  return run_case(spec, *provider).front();
}

TEST(Suggestions, AFailingCheckIsRunByOtherMeansAndTheEffectMeasured) {
  const Inputs inputs = of({{wrongly_declared()}});
  const std::vector<Tried> tried = try_changes(inputs, {});
  const auto one = [&](const std::string& change) {
    const auto at = std::ranges::find(tried, change, &Tried::change);
    return at == tried.end() ? Tried{} : *at;
  };
  const Tried declared = one("declare = \"one_plus_erf\""), variant = one("variant = \"erfc\"");
  EXPECT_GT(declared.before, 1);
  EXPECT_LE(declared.after, 1);
  EXPECT_TRUE(declared.is_mended);
  EXPECT_GT(variant.before, 0.51);
  EXPECT_LE(variant.after, 0.51);
  EXPECT_EQ(variant.verdict, "within");
  const Tried wide =
      one("precision = \"bf16:fp64:bf16\"");  // judged as the erfc form that it is not
  EXPECT_LT(wide.after, wide.before);
  const std::string page = report_page(inputs, {tried, true, false});
  EXPECT_EQ(page_mistakes(page), Lines());
  EXPECT_TRUE(contains(page, "<code>variant = &quot;erfc&quot;</code>"));
}

TEST(Suggestions, NothingIsTriedWhereNothingFails) {
  EXPECT_TRUE(try_changes(of({{check_record()}}), {}).empty());
  Record unknown = with_verdict(check_record(), Verdict::exceeds);
  unknown.op = "of another program";
  const std::vector<Tried> tried = try_changes(of({{unknown}}), {});
  ASSERT_EQ(tried.size(), 1U);
  EXPECT_TRUE(contains(tried.front().failure, "unknown op"));
}

// ---- the check of pages finds what it is for

TEST(PageCheck, FindsWhatIsPlanted) {
  const auto page = [](const std::string& inner) {
    return page_head("t", "") + inner + page_end();
  };
  EXPECT_EQ(page_mistakes(page("<h2 id=\"a\">b</h2><a href=\"#a\">c</a>")), Lines());
  for (const char* wrong :
       {"<h3>too deep</h3>", "<h1>again</h1>", "<th>of what</th>", "<td></td>",
        "<td class=\"n\"> </td>", "<svg width=\"1\"></svg>",
        "<svg role=\"img\" aria-label=\"\"></svg>", "<a href=\"#nowhere\">x</a>",
        "<a href=\"http://a.b\">x</a>", "<script>x</script>", "<p id=\"a\">x</p><p id=\"a\">y</p>",
        "<img src=\"x.png\">"})
    EXPECT_EQ(page_mistakes(page(wrong)).size(), 1U) << wrong;
}

TEST(PageCheck, ComputesContrasts) {
  EXPECT_EQ(std::round(contrast("#000000", "#ffffff")), 21);
  EXPECT_EQ(contrast("#777777", "#777777"), 1);
  const auto page = [](const std::string& style) { return page_head("t", style) + page_end(); };
  EXPECT_EQ(faint_colours(page("")), Lines());
  EXPECT_EQ(faint_colours(page(":root { --a: #cccccc; }")), (Lines{"a #cccccc, light"}));
  EXPECT_EQ(faint_colours(page(":root { --h1: #102030; --h1-ink: #203040; }")).size(), 2U);
}

TEST(Percent, IsWrittenAsPeopleWriteIt) {
  EXPECT_EQ(percent(0.5713), "57.1%");
  EXPECT_EQ(percent(-0.0042), "-0.42%");
  EXPECT_EQ(percent(3e-7), "<0.01%");
  EXPECT_EQ(percent(-3e-7), ">-0.01%");
  EXPECT_EQ(percent(0), "0%");
}

TEST(HeatClass, GrowsWithTheShare) {
  EXPECT_EQ(heat_class(0), "h0");
  EXPECT_EQ(heat_class(1e-9), "h1");
  EXPECT_EQ(heat_class(0.04), "h1");
  EXPECT_EQ(heat_class(-0.3), "h3");
  EXPECT_EQ(heat_class(1), "h5");
  EXPECT_EQ(heat_class(7), "h5");
  EXPECT_EQ(heat_class(std::nan("")), "h5");
}

// ---- files

class ReportInputs : public TemporaryFolder {};

TEST_F(ReportInputs, EveryKindIsToldByItsFirstLine) {
  const std::string records = put("a", to_json(check_record()) + "\n");
  const std::string clean =
      put("b", R"({"schema":1,"kind":"clean_training_run","policy":"bf16","steps":9,"alarms":2,)"
               R"("first_alarm":"step 3"})"
               "\n");
  const Inputs inputs = read_inputs({records, clean}, {});
  EXPECT_EQ(inputs.records.size(), 1U);
  EXPECT_EQ(inputs.sentinels.at(0).results.at(0).false_alarms, 2);
  EXPECT_TRUE(contains(row_of(page_of(inputs), "alarms in runs without a fault"),
                       "2||not passed||bf16: step 3"));
}

TEST_F(ReportInputs, WhatIsNothingOfOursIsRefusedInOneLine) {
  put("empty", "");
  put("other", "{\"schema\":1,\"kind\":\"weather\"}\n");
  put("words", "hello\n");
  put("broken", "{\"schema\":1,\"kind\":\"attribution_swap\",\"step\":0}\n");
  put("number", "{\"schema\":1,\"kind\":\"attribution_swap\",\"step\":\"0\"}\n");
  const auto said = [&](const char* name) {
    return refused([&] { read_inputs({path(name)}, {}); });
  };
  EXPECT_EQ(said("empty"), "empty: no line, expected a file that opbound wrote");
  EXPECT_TRUE(contains(said("other"), "other:1: kind 'weather'"));
  EXPECT_TRUE(contains(said("words"), "words:1: a line without a kind"));
  EXPECT_TRUE(contains(said("broken"), "broken:1: no micro_batch"));
  EXPECT_TRUE(contains(said("number"), "number:1: step \"0\""));
  EXPECT_TRUE(contains(said("missing"), "missing"));
  EXPECT_TRUE(contains(refused([&] { read_inputs({}, {path("other")}); }), "no trace"));
}

}  // namespace
}  // namespace opbound::report
