// Tables: the layout in each style, which rows stand where.
#include "reports/table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "ops/philox.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Record record(const std::string& op, const std::string& precision, Verdict v, double ratio) {
  Record r;
  r.op = op;
  r.part = "y";
  r.direction = "forward";
  r.variant = "erfc";
  r.precision = precision;
  r.provider = "own";
  r.inputs = {{{"rows", 64}, {"n", 1000}}, "normal(0,1)", 7};
  r.verdict = v;
  r.ratio = ratio;
  r.acceptable_mean = 1.04;
  r.acceptable_max = 3;
  r.error_ulp_max = 0.5008;
  r.bias_ulp = -3.2e-4;
  r.bound_source = "tracked, this order";
  r.counts.checked = 64000;
  (v == Verdict::exceeds     ? r.counts.exceeds
   : v == Verdict::undecided ? r.counts.undecided
   : v == Verdict::vacuous   ? r.counts.vacuous
                             : r.counts.within) = 64000;
  if (v == Verdict::skipped || v == Verdict::failed) r.counts = {};
  return r;
}

std::string table_of(const std::vector<Record>& records, bool all = false,
                     TableStyle style = TableStyle::terminal, std::size_t columns = 160) {
  return error_table(records, {style, all, {.columns = columns}});
}

TEST(TerminalTable, AlignsTextLeftAndNumbersRight) {
  Table table({{.title = "op"}, {.title = "ratio", .number = true}, {.title = "empty"}});
  table.add_row({{"gelu"}, {"0.71"}, {""}});
  table.add_rule();
  table.add_row({{"layer_norm"}, {"3.2e-4"}, {""}});
  EXPECT_EQ(table.terminal({}),
            "op           ratio\n"
            "------------------\n"
            "gelu          0.71\n"
            "------------------\n"
            "layer_norm  3.2e-4\n");
}

TEST(TerminalTable, RefusesARowOfAnotherWidth) {
  Table table({{.title = "a"}, {.title = "b"}});
  EXPECT_THROW(table.add_row({{"1"}}), std::logic_error);
}

TEST(TerminalTable, ColourSurroundsTheCellAndChangesNoWidth) {
  Table table({{.title = "verdict"}, {.title = "n", .number = true}});
  table.add_row({{"exceeds", Colour::bad}, {"1"}});
  EXPECT_TRUE(contains(table.terminal({.colour = true}), "\033[1;31mexceeds\033[0m  1\n"));
  EXPECT_FALSE(contains(table.terminal({}), "\033"));
}

TEST(TerminalTable, WrapsThenLeavesOutAndSaysSo) {
  Table table({{.title = "key"},
               {.title = "long", .least_width = 8},
               {.title = "spare", .number = true, .dispensable = 1},
               {.title = "first", .number = true, .dispensable = 2}});
  table.add_row({{"k"}, {"one two three"}, {"spare text"}, {"first text"}});
  EXPECT_EQ(table.terminal({.columns = 38}),
            "key  long            spare       first\n"
            "--------------------------------------\n"
            "k    one two    spare text  first text\n"
            "     three\n");
  EXPECT_EQ(table.terminal({.columns = 30}),
            "key  long                spare\n"
            "------------------------------\n"
            "k    one two three  spare text\n"
            "too narrow for: [first]\n");
}

TEST(TerminalTable, WrapsTitlesOfNumbersAndNoNumber) {
  Table table({{.title = "op"}, {.title = "largest of all", .number = true}});
  table.add_row({{"gelu"}, {"123456789"}});
  EXPECT_EQ(table.terminal({.columns = 15}),
            "op      largest\n"
            "         of all\n"
            "---------------\n"
            "gelu  123456789\n");
}

TEST(TerminalTable, WrapsATitleOfNumbersBeforeAColumnGoesWhereItMay) {
  Table table({{.title = "op"},
               {.title = "largest of all", .number = true, .least_width = 7},
               {.title = "n", .number = true, .dispensable = 1}});
  table.add_row({{"gelu"}, {"123456789"}, {"1"}});
  EXPECT_EQ(table.terminal({.columns = 18}),
            "op      largest  n\n"
            "         of all\n"
            "------------------\n"
            "gelu  123456789  1\n");
}

TEST(TerminalTable, KeepsWhatAloneTellsRowsApart) {
  Table table(
      {{.title = "key"}, {.title = "apart", .dispensable = 2}, {.title = "not", .dispensable = 1}});
  table.add_row({{"the same words"}, {"one"}, {"here"}});
  table.add_row({{"the same words"}, {"two"}, {"here"}});
  const std::string narrow = table.terminal({.columns = 22});
  EXPECT_TRUE(contains(narrow, "one") && contains(narrow, "two")) << narrow;
  EXPECT_TRUE(contains(narrow, "too narrow for: [not]\n")) << narrow;
}

TEST(TerminalTable, ANumberThatDoesNotApplyTellsRowsApart) {
  Table table(
      {{.title = "key"}, {.title = "kind", .dispensable = 1}, {.title = "n", .number = true}});
  table.add_row({{"the same words"}, {"bound"}, {"1"}});
  table.add_row({{"the same words"}, {"agreement"}, {""}});
  EXPECT_TRUE(contains(table.terminal({.columns = 23}), "too narrow for: [kind]\n"));
}

TEST(ErrorTable, OneRowShowsTheWorstCaseOfItsGroup) {
  std::vector<Record> records{record("gelu", "fp32", Verdict::within, 0.3),
                              record("gelu", "fp32", Verdict::within, 0.71),
                              record("gelu", "fp32", Verdict::within, 0.5)};
  records[1].inputs.input = "ties";
  const auto lines = lines_of(table_of(records));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_TRUE(contains(lines[0], "worst case"));
  EXPECT_TRUE(contains(lines[2], "64x1000 ties      3  own")) << lines[2];
  EXPECT_TRUE(contains(lines[2], "0.71  ") && contains(lines[2], "1.04/3")) << lines[2];
  EXPECT_TRUE(contains(lines[2], "0.501") && contains(lines[2], "-3.2e-4")) << lines[2];
  EXPECT_TRUE(contains(lines[2], "1.9e5")) << lines[2];  // elements of all three
  EXPECT_EQ(lines_of(table_of(records, true)).size(), 7U);
}

TEST(ErrorTable, AWorseVerdictOutranksALargerRatio) {
  std::vector<Record> records{record("gelu", "fp32", Verdict::within, 0.9),
                              record("gelu", "fp32", Verdict::undecided, 0.2)};
  EXPECT_TRUE(contains(lines_of(table_of(records))[2], "undecided   0.20"));
}

TEST(ErrorTable, ProvidersVariantsAndPartsHaveRowsOfTheirOwn) {
  std::vector<Record> records(5, record("gelu", "fp32", Verdict::within, 0.5));
  records[1].provider = "torch";
  records[2].variant = "tanh";
  records[3].part = "dx";
  records[4].kind = CheckKind::agreement;
  EXPECT_EQ(lines_of(table_of(records)).size(), 2 + 5 + 2U);
}

TEST(ErrorTable, WhatMakesTheRunFailStandsFirst) {
  std::vector<Record> records{record("gelu", "fp32", Verdict::within, 0.5),
                              record("gelu", "bf16", Verdict::vacuous, 0),
                              record("gelu", "fp16", Verdict::vacuous, 0),
                              record("softmax", "fp32", Verdict::undecided, 1),
                              record("softmax", "bf16", Verdict::exceeds, 8),
                              record("softmax", "fp16", Verdict::failed, 0),
                              record("gelu", "e4m3", Verdict::skipped, 0)};
  records[1].allowed_vacuous = "7 bits hold no bound";
  std::vector<std::string> order;
  for (const std::string& line : lines_of(table_of(records)))
    for (const char* verdict : {" failed ", " exceeds ", " undecided ", " vacuous ", " vacuous* ",
                                " skipped ", " within "})
      if (contains(line, "64x1000") && contains(line, verdict)) order.emplace_back(verdict);
  EXPECT_EQ(order, (std::vector<std::string>{" failed ", " exceeds ", " undecided ", " vacuous ",
                                             " within ", " vacuous* ", " skipped "}));
}

TEST(ErrorTable, RowsKeepOpsDirectionsAndPrecisionsTogether) {
  std::vector<Record> records;
  for (const char* precision : {"fp32", "bf16"})
    for (const char* op : {"softmax", "gelu"})
      for (const char* direction : {"forward", "backward_local"}) {
        records.push_back(record(op, precision, Verdict::within, 0.5));
        records.back().direction = direction;
      }
  const auto lines = lines_of(table_of(records, false, TableStyle::csv));
  const std::vector<std::string> starts{"op,",
                                        "softmax,y,forward,erfc,fp32,",
                                        "softmax,y,forward,erfc,bf16,",
                                        "softmax,y,backward_local,erfc,fp32,",
                                        "softmax,y,backward_local,erfc,bf16,",
                                        "gelu,y,forward,erfc,fp32,",
                                        "gelu,y,forward,erfc,bf16,",
                                        "gelu,y,backward_local,erfc,fp32,",
                                        "gelu,y,backward_local,erfc,bf16,"};
  ASSERT_EQ(lines.size(), starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i)
    EXPECT_EQ(lines[i].rfind(starts[i], 0), 0U) << lines[i];
}

TEST(ErrorTable, LastLineCountsEverything) {
  const auto line = [](const std::vector<Record>& records) {
    return lines_of(table_of(records)).back();
  };
  std::vector<Record> records(3, record("gelu", "fp32", Verdict::within, 0.5));
  EXPECT_EQ(
      line(records),
      "within 3, vacuous 0, skipped 0, undecided 0, exceeds 0, failed 0; 1.9e5 elements checked");
  records.push_back(record("gelu", "bf16", Verdict::vacuous, 0));
  EXPECT_TRUE(contains(line(records), "vacuous 1, skipped"));
  records.back().allowed_vacuous = "why";
  EXPECT_TRUE(contains(line(records), "vacuous 1 (allowed by name), skipped"));
  records.push_back(record("gelu", "fp16", Verdict::vacuous, 0));
  EXPECT_TRUE(contains(line(records), "vacuous 2 (1 allowed by name), skipped"));
  EXPECT_EQ(line({}),
            "within 0, vacuous 0, skipped 0, undecided 0, exceeds 0, failed 0; 0 elements checked");
}

TEST(ErrorTable, ExitCodeFollowsTheRecords) {
  std::vector<Record> records{record("gelu", "fp32", Verdict::within, 0.5),
                              record("gelu", "fp32", Verdict::vacuous, 0.5)};
  EXPECT_EQ(summary_of(records).exit_code(), 1);
  records[1].allowed_vacuous = "why";
  EXPECT_EQ(summary_of(records).exit_code(), 0);
  records[0].allowed_vacuous = "why";  // a reason without need changes nothing
  records.push_back(record("gelu", "fp32", Verdict::vacuous, 0.5));
  EXPECT_EQ(summary_of(records).exit_code(), 1);
}

TEST(ErrorTable, ReasonsAreListedOnceWithTheirCount) {
  std::vector<Record> records(3, record("gelu", "fp32", Verdict::skipped, 0));
  for (Record& r : records) r.reason = "no CUDA device";
  records.push_back(record("gelu", "fp32", Verdict::failed, 0));
  records.back().reason = "the output has 3 elements of 4";
  records.push_back(record("gelu", "bf16", Verdict::vacuous, 0));
  records.back().allowed_vacuous = "k u is 2";
  const std::string text = table_of(records);
  const std::size_t failed = text.find("\nfailed 1: the output has 3 elements of 4\n");
  const std::size_t skipped = text.find("\nskipped 3: no CUDA device\n");
  EXPECT_LT(failed, skipped) << text;
  EXPECT_TRUE(contains(text, "\nvacuous* (allowed by name) 1: k u is 2\n")) << text;
}

std::vector<Record> random_records() {
  std::vector<Record> records;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto word = [&](std::uint64_t k) { return philox_word(11, k, i); };
    Record r =
        record(word(0) % 2 == 0 ? "cross_entropy" : "gelu", "bf16:fp32:bf16",
               all_verdicts[word(1) % 6], std::ldexp(1.0, static_cast<int>(word(2) % 60) - 50));
    r.direction = word(3) % 2 == 0 ? "backward_local" : "forward";
    r.variant = std::string(word(4) % 20, 'v');
    r.provider = std::string(1 + word(5) % 30, 'p');
    r.inputs.input = std::string(word(6) % 60, 'i');
    r.bound_source = std::string(word(7) % 40, 's');
    r.allowed_vacuous = word(8) % 2 == 0 ? "named" : "";
    records.push_back(r);
  }
  return records;
}

TEST(ErrorTable, FitsEveryWidthFrom80To240) {
  for (std::size_t columns = 80; columns <= 240; ++columns)
    for (const bool all : {false, true}) {
      const std::string text = table_of(random_records(), all, TableStyle::terminal, columns);
      for (const std::string& line : lines_of(text.substr(0, text.find("\n\n"))))  // no sentences
        ASSERT_LE(width_of(line), columns) << line;
    }
}

/// The text between two columns' titles, all lines of a row put together.
std::vector<std::string> column_of(const std::string& table, std::string_view title,
                                   std::string_view next) {
  const std::vector<std::string> lines = lines_of(table.substr(0, table.find("\n\n")));
  const std::size_t begin = lines[0].find(title), end = lines[0].find(next, begin);
  std::vector<std::string> cells;
  for (std::size_t i = 2; i < lines.size(); ++i) {
    if (lines[i].starts_with("too narrow")) break;
    if (lines[i].front() == '-') continue;
    if (lines[i].front() != ' ') cells.emplace_back();
    if (lines[i].size() <= begin) continue;
    std::string part = lines[i].substr(begin, end - begin);
    part.resize(part.find_last_not_of(' ') + 1);
    cells.back() += part;
  }
  return cells;
}

// Two names that differ only at their ends are both there to the end, however narrow it is.
TEST(ErrorTable, NoNameIsCut) {
  const std::string long_name(50, 'v');
  std::vector<Record> records(2, record("gelu", "bf16:fp32:bf16", Verdict::within, 0.5));
  records[0].variant = long_name + "1";
  records[1].variant = long_name + "2";
  for (const std::size_t columns : {80U, 120U, 200U}) {
    const std::string text = table_of(records, false, TableStyle::terminal, columns);
    EXPECT_EQ(column_of(text, "variant", "precision"),
              (std::vector<std::string>{records[0].variant, records[1].variant}))
        << text;
  }
}

TEST(ErrorTable, OrdinaryRowsKeepOneLineAt120Columns) {
  const std::string text = table_of({record("softmax", "bf16:fp32:bf16", Verdict::within, 0.5)},
                                    false, TableStyle::terminal, 120);
  EXPECT_EQ(lines_of(text.substr(0, text.find("\n\n"))).size(), 3U + contains(text, "narrow"))
      << text;
}

/// What is found out stays to the last: names in one line, the verdict, the ratio, then how sharp
/// the bound is.
TEST(ErrorTable, NarrowTablesLeaveOutWhatSaysLeastFirst) {
  const std::vector<Record> records{record("softmax", "bf16:fp32:bf16", Verdict::within, 0.71)};
  for (const auto& [columns, left_out] :
       {std::pair<std::size_t, std::string>{160, ""},
        {140, "[cases] [provider]"},
        {120, "[cases] [provider] [checked] [bound source]"},
        {100, "[cases] [provider] [checked] [bound source] [bias ulp] [max ulp]"},
        {80, "[cases] [provider] [checked] [bound source] [bias ulp] [max ulp] [worst case]"}}) {
    const std::string text = table_of(records, false, TableStyle::terminal, columns);
    std::string note;
    for (const std::string& line : lines_of(text.substr(0, text.find("\n\n"))))
      if (line.starts_with("too narrow") || !note.empty()) note += (note.empty() ? "" : " ") + line;
    EXPECT_EQ(note, left_out.empty() ? "" : "too narrow for: " + left_out) << text;
    for (const char* kept : {"softmax  y", "erfc", "bf16:fp32:bf16", "within", "0.71", "1.04/3"})
      EXPECT_TRUE(contains(lines_of(text)[2], kept)) << text;
  }
}

/// Those that are alike in all records of an op are left to CSV.
TEST(ErrorTable, ARowForEveryRecordNamesTheAttributesThatTellItFromOthers) {
  std::vector<Record> records{record("softmax", "fp32", Verdict::within, 0.5),
                              record("softmax", "fp32", Verdict::within, 0.5),
                              record("gelu", "fp32", Verdict::within, 0.5)};
  records[0].attributes = {{"log", false}, {"eps", 1e-5}};
  records[1].attributes = {{"log", true}, {"eps", 1e-5}};
  records[2].attributes = {{"approximate", "tanh"}};
  for (const TableStyle style : {TableStyle::terminal, TableStyle::markdown}) {
    const std::string text = table_of(records, true, style);
    EXPECT_TRUE(contains(text, "attributes") && contains(text, "log=false")) << text;
    EXPECT_TRUE(contains(text, "log=true")) << text;
    EXPECT_FALSE(contains(text, "eps") || contains(text, "tanh")) << text;
    EXPECT_FALSE(contains(table_of(records, false, style), "attributes"));
  }
  const std::string narrow = table_of(records, true, TableStyle::terminal, 80);
  EXPECT_TRUE(contains(narrow, "log=false") && contains(narrow, "log=true")) << narrow;
  const std::string csv = table_of(records, true, TableStyle::csv);
  EXPECT_TRUE(contains(csv, ",fp32,log=true eps=1e-05,64x1000,")) << csv;
  EXPECT_TRUE(contains(csv, ",fp32,approximate=tanh,64x1000,")) << csv;
}

TEST(ErrorTable, MarkdownEscapesWhatWouldBreakIt) {
  Record r = record("gelu", "fp32", Verdict::within, 0.5);
  r.variant = "a|b<c>\nd*";
  r.bias_ulp.reset();
  const std::string text = table_of({r}, false, TableStyle::markdown);
  EXPECT_TRUE(contains(text, "| a\\|b\\<c>?d\\* |")) << text;
  EXPECT_FALSE(contains(text, "bias ulp")) << "a column without text";
  EXPECT_TRUE(contains(text, "| acceptable mean/max |")) << text;
  EXPECT_TRUE(contains(text, "64\u00d71000 normal(0,1)")) << text;
  EXPECT_TRUE(contains(text, "\nwithin 1, ")) << text;
}

TEST(ErrorTable, CsvHoldsNumbersInFullAndQuotes) {
  Record r = record("gelu", "fp32", Verdict::within, 0.1 + 0.2);
  r.inputs.input = "says \"1,2\"";
  r.acceptable_max = infinity;
  r.error_ulp_max.reset();
  const auto lines = lines_of(table_of({r}, false, TableStyle::csv));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(
      lines[1],
      "gelu,y,forward,erfc,fp32,,64x1000,\"says \"\"1,2\"\"\",7,own,,,within,0.30000000000000004,"
      "1.04,inf,,-0.00032,\"tracked, this order\",1,64000,,");
}

TEST(ErrorTable, SkippedRecordsWithoutNumbersLeaveCellsEmpty) {
  Record r;
  r.op = "gelu";
  r.verdict = Verdict::skipped;
  const auto lines = lines_of(table_of({r}));
  EXPECT_EQ(lines[0], "op    cases  verdict  checked");
  EXPECT_EQ(lines[2], "gelu      1  skipped        0");
}

}  // namespace
}  // namespace opbound
