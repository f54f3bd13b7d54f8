// opbound explain: the same check again, its worst element, and the smallest input that fails.
#include "reports/history.hpp"
#include "suites/rerun.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

const std::string naive_gelu = R"toml(op = "gelu"
[[case]]
precision = "bf16:fp32:bf16"
variant = "one_plus_erf"
declare = "erfc"
shape = [4096]
input = {x = "normal(sigma=4)"}
)toml";

/// log(softmax) is -infinity where softmax underflows.
const std::string naive_log_softmax = R"toml(op = "softmax"
[[case]]
direction = ["forward", "backward_local", "backward_full"]
precision = "fp32"
attributes = {log = true}
variant = "log_of_softmax"
declare = "log_of_sum"
shape = [8, 300]
input = {x = "normal(sigma=40)", dy = "normal"}
)toml";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What stands between two texts, from the first occurrence of `before` on; empty if nothing does.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const std::size_t first = at + before.size();
  return text.substr(first, text.find(after, first) - first);
}

TEST_F(Program, explains_the_worst_record_and_reproduces_its_bits) {
  put("gelu.toml", naive_gelu);
  opbound("run gelu.toml --out r.jsonl");
  const Ran ran = opbound("explain r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "gelu y forward one_plus_erf bf16:fp32:bf16: exceeds"));
  EXPECT_TRUE(contains(ran.out, "run again: the same bits, sum64:"));
  EXPECT_TRUE(contains(ran.out, "the stored values of x around it"));
  EXPECT_TRUE(contains(ran.out, "rounding  "));
}

TEST_F(Program, explains_a_row_with_its_largest_ratios) {
  put("softmax.toml", naive_log_softmax);
  opbound("run softmax.toml --out r.jsonl");
  for (const char* line : {"r.jsonl:1", "r.jsonl --line 2", "r.jsonl:3"}) {
    const Ran ran = opbound(std::string("explain ") + line);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(contains(ran.out, "its block of 300 elements")) << ran.out;
    EXPECT_TRUE(contains(ran.out, "the same bits")) << ran.out;
  }
  for (const char* line : {"r.jsonl:4", "r.jsonl:0", "r.jsonl --line 0"}) {
    const std::string refused = refusal(std::string("explain ") + line);
    EXPECT_TRUE(refused.starts_with("opbound: r.jsonl: no line ")) << refused;
    EXPECT_TRUE(contains(refused, ", expected a record's line, 1 to 3\n")) << refused;
  }
}

TEST_F(Program, the_store_is_the_outputs_own) {
  put("residual.toml",
      "op = \"residual\"\n[[case]]\nprecision = \"bf16:fp32:bf16\"\nshape = [20]\n"
      "attributes = {stream = [\"fp32\", \"bf16\"]}\n");
  EXPECT_EQ(opbound("run residual.toml --out r.jsonl").code, 0);
  const std::string to_bf16 = "RN is the store's rounding to bf16";
  for (int line = 1; const Record& r : read_records(path("r.jsonl"))) {
    const std::string text = opbound("explain r.jsonl:" + std::to_string(line++)).out;
    const bool is_branch = r.part == "dr";  // the branch's own gradient
    const bool is_wide = attributes_text(r.attributes).find("stream=fp32") != std::string::npos;
    EXPECT_EQ(contains(text, to_bf16), is_branch || !is_wide) << text;
  }
}

TEST_F(Program, the_two_ways_to_name_a_line_agree) {
  put("softmax.toml", naive_log_softmax);
  opbound("run softmax.toml --out r.jsonl");
  EXPECT_EQ(opbound("explain r.jsonl:2 --line 2").out, opbound("explain r.jsonl:2").out);
  EXPECT_EQ(refusal("explain r.jsonl:1 --line 2"),
            "opbound: --line: 2, expected the line of r.jsonl:1, or one of the two alone\n");
}

TEST_F(Program, explains_what_was_judged_before_what_was_skipped) {
  put("gelu.toml", naive_gelu);
  opbound("run gelu.toml --out r.jsonl");
  const Record judged = read_records(path("r.jsonl")).front();
  const std::uint64_t n = judged.counts.checked;
  const std::vector<std::pair<Verdict, ElementCounts>> rising{{Verdict::skipped, {}},
                                                              {Verdict::within, {n, 0, 0, 0, n}},
                                                              {Verdict::vacuous, {0, 0, 0, n, n}},
                                                              {Verdict::undecided, {0, 0, n, 0, n}},
                                                              {Verdict::exceeds, judged.counts}};
  std::string lines;
  for (const auto& [v, counts] : rising) {
    Record r = judged;
    r.verdict = v;
    r.counts = counts;
    if (v == Verdict::skipped) r.output_hash.clear();
    lines += to_json(r) + "\n";
    put("more.jsonl", lines);
    const std::string text = opbound("explain more.jsonl").out;
    EXPECT_TRUE(contains(text, "bf16:fp32:bf16: " + std::string(name_of(v)))) << text;
    EXPECT_EQ(contains(text, "run again: the same bits"), v != Verdict::skipped) << text;
  }
  EXPECT_TRUE(contains(opbound("explain more.jsonl:1").out,
                       "\nnot run again: it was skipped and left no output\n"));
}

TEST_F(Program, says_when_the_bits_are_others) {
  put("gelu.toml", naive_gelu);
  opbound("run gelu.toml --out r.jsonl");
  std::string other = get("r.jsonl");
  const std::string hash = between(other, "\"sum64:", "\"");
  put("other.jsonl", other.replace(other.find(hash), hash.size(), "0123456789abcdef"));
  const Ran ran = opbound("explain other.jsonl");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(contains(ran.out, "OTHER BITS"));
}

TEST_F(Program, the_commands_that_it_prints_run_the_very_same_check) {
  put("suites/softmax.toml", naive_log_softmax);
  opbound("run --out r.jsonl --quiet");
  const std::string text = opbound("explain r.jsonl:2").out;
  const std::string command = between(text, "  opbound run ", "\n");
  opbound("run " + command + " --out again.jsonl");
  const std::vector<Record> records = read_records(path("r.jsonl"));
  const std::vector<Record> again = read_records(path("again.jsonl"));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].output_hash, records[1].output_hash);

  const std::size_t first = text.find("  op = "), last = text.find("seed = 1\n");
  std::string suite = text.substr(first, last - first) + "seed = 1\n";
  put("alone/softmax.toml", suite);
  opbound("run alone/softmax.toml --out alone.jsonl");
  ASSERT_EQ(read_records(path("alone.jsonl")).size(), 1U);
  EXPECT_EQ(read_records(path("alone.jsonl"))[0].output_hash, records[1].output_hash);
}

/// The printed commands find a suite wherever it was, and are not printed where it is gone.
TEST_F(Program, a_suite_of_another_folder_is_run_again_from_there) {
  put("my suites/softmax.toml", naive_log_softmax);
  opbound("run 'my suites/softmax.toml' --out r.jsonl --quiet");
  const std::string command = between(opbound("explain r.jsonl:2").out, "  opbound ", "\n");
  EXPECT_TRUE(command.starts_with("run 'my suites/softmax.toml' ")) << command;
  opbound(command + " --out again.jsonl");
  const std::vector<Record> again = read_records(path("again.jsonl"));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].output_hash, read_records(path("r.jsonl"))[1].output_hash);

  put("my suites/softmax.toml", naive_gelu);  // no longer its suite
  const std::string text = opbound("explain r.jsonl:2").out;
  EXPECT_FALSE(contains(text, "  opbound run ")) << text;
  EXPECT_TRUE(contains(text, "no my suites/softmax.toml with this case is found")) << text;
}

TEST_F(Program, a_sweep_is_run_again_alone) {
  put("mine/gelu.toml", naive_gelu + "[[case]]\nprecision = \"fp32\"\nshape = [4]\n" +
                            "attributes = {approximate = [\"none\", \"tanh\"]}\n");
  opbound("sweep gelu --suites mine --all-attributes --every 65537 --out s.jsonl --quiet");
  const std::vector<Record> records = read_records(path("s.jsonl"));
  ASSERT_EQ(records.size(), 3U);
  for (std::size_t r = 0; r < records.size(); ++r) {
    const std::string line = std::to_string(r + 1);
    const std::string command = between(opbound("explain s.jsonl:" + line).out, "  opbound ", "\n");
    EXPECT_TRUE(command.starts_with("sweep gelu --suites mine --every 65537 ")) << command;
    opbound(command + " --out again" + line + ".jsonl");
    const std::vector<Record> again = read_records(path("again" + line + ".jsonl"));
    ASSERT_EQ(again.size(), 1U) << command;
    EXPECT_EQ(again[0].output_hash, records[r].output_hash);
  }
}

class ShrinkProgram : public Program {
 protected:
  /// Shrinks the first record of a suite, and runs the program that it writes.
  std::string shrink(const std::string& op, const std::string& suite) const {
    put(op + ".toml", suite);
    opbound("run " + op + ".toml --out r.jsonl");
    const Ran ran = opbound("explain r.jsonl:1 --shrink --out shown.cpp");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  }
  void expect_violation() const {
    if (shell("c++ --version").code != 0) GTEST_SKIP() << "no C++ compiler";
    const Ran built = shell("c++ -std=c++17 -Wall -Wextra -Werror shown.cpp -o shown");
    ASSERT_EQ(built.code, 0) << built.err;
    const Ran shown = shell("./shown");
    EXPECT_EQ(shown.code, 1);
    EXPECT_TRUE(contains(shown.out, "VIOLATION"));
  }
};

TEST_F(ShrinkProgram, finds_one_simple_number_for_an_elementwise_op) {
  const std::string text = shrink("gelu", naive_gelu);
  EXPECT_TRUE(contains(text, "  n = 1\n")) << text;
  EXPECT_TRUE(contains(text, "x[0] = -0x1p+")) << text;  // a power of two
  expect_violation();
}

TEST_F(ShrinkProgram, overwrites_no_file) {
  put("shown.cpp", "mine");
  put("gelu.toml", naive_gelu);
  opbound("run gelu.toml --out r.jsonl");
  EXPECT_EQ(refusal("explain r.jsonl --shrink --out shown.cpp"),
            "opbound: --out: shown.cpp exists already, expected the name of a new file\n");
  EXPECT_EQ(get("shown.cpp"), "mine");
}

TEST_F(ShrinkProgram, leaves_the_few_elements_of_a_row_that_matter) {
  const std::string text = shrink("softmax", naive_log_softmax);
  EXPECT_TRUE(contains(text, "  rows = 1 n = 2\n")) << text;  // one large, one lost
  expect_violation();
}

TEST_F(ShrinkProgram, refuses_a_record_that_is_within) {
  put("softmax.toml", naive_log_softmax);
  opbound("run softmax.toml --out r.jsonl");
  refusal("explain r.jsonl:2 --shrink");
  refusal("explain r.jsonl:1 --out shown.cpp");
}

}  // namespace
}  // namespace opbound
