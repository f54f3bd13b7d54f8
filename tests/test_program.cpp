// opbound list, run, table: what a user sees, and the exit codes.
#include <unistd.h>
#include <csignal>
#include <thread>

#include "ops/op.hpp"
#include "reports/history.hpp"
#include "suites/input.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

const std::string small_suite = R"toml(op = "gelu"
[[case]]
name = "small"
precision = ["fp32", "bf16:fp32:bf16"]
shape = [64]
[[case]]
name = "larger"
tier = "full"
precision = "fp32"
shape = [128]
)toml";

/// The form that cancels, judged by the bound of the one that does not.
const std::string naive_suite = R"toml(op = "gelu"
[[case]]
precision = "bf16:fp32:bf16"
variant = "one_plus_erf"
declare = "erfc"
shape = [65536]
input = {x = "every_pattern"}
)toml";

TEST_F(Program, says_its_version_and_how_it_is_used) {
  const Ran version = opbound("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.out.starts_with("opbound 0."));
  const Ran help = opbound("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"run", "list", "table", "explain", "check", "Exit codes"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  EXPECT_EQ(opbound("run --help").code, 0);
}

TEST_F(Program, lists_every_op_variant_generator_and_format) {
  const Ran ran = opbound("list");
  EXPECT_EQ(ran.code, 0);
  for (const Op& op : all_ops()) {
    EXPECT_NE(ran.out.find(op.math), std::string::npos) << op.name;
    for (const Variant& v : op.variants)
      EXPECT_NE(ran.out.find(v.formula), std::string::npos) << v.name;
  }
  for (const GeneratorInfo& g : all_generators())
    EXPECT_NE(ran.out.find("\n" + std::string(g.kind) + " "), std::string::npos) << g.kind;
  for (const Format& f : all_formats)
    EXPECT_NE(ran.out.find("\n" + std::string(name_of(f)) + " "), std::string::npos);
}

TEST_F(Program, lists_what_each_tensor_of_an_op_has_to_be) {
  const Ran ran = opbound("list adamw --precision bf16:fp32:bf16 --attribute low_copy=true");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto row = [&](const std::string& tensor) {
    const std::size_t at = ran.out.find(" " + tensor + " ", ran.out.find("Precision "));
    const std::size_t begin = ran.out.rfind('\n', at) + 1;
    const std::string line = ran.out.substr(begin, ran.out.find('\n', at) - begin);
    std::string words;  // one blank between two words
    for (const char c : line)
      if (c != ' ' || !words.ends_with(' ')) words += c;
    return words;
  };
  EXPECT_NE(ran.out.find("format in bf16:fp32:bf16"), std::string::npos);
  EXPECT_EQ(row("w[n]"), "forward in w[n] fp32 attribute state_format");
  EXPECT_EQ(row("g[steps, n]"), "forward in g[steps, n] bf16 the storage format");
  EXPECT_EQ(row("low_w[steps, n]"), "forward out low_w[steps, n] bf16 the output format");
  EXPECT_EQ(row("found_inf[steps]"),
            "forward mask found_inf[steps] boolean always may be left out: false");
  EXPECT_NE(opbound("list cross_entropy").out.find("0 to vocab - 1, or ignore_index"),
            std::string::npos);
  EXPECT_NE(opbound("list attention").out.find("absent with these attributes"), std::string::npos);
  for (const Op& op : all_ops())
    for (const TensorSpec& t : op.forward.tensors) {
      if (t.role == Role::scratch) continue;
      EXPECT_NE(opbound("list " + std::string(op.name)).out.find(" " + std::string(t.name)),
                std::string::npos)
          << op.name << " " << t.name;
    }
  refusal("list ops --precision fp32");
  refusal("list adamw --precision fp33");
  refusal("list adamw --attribute lr");
  EXPECT_NE(refusal("list adamw --attribute lr=1 --attribute lr=2").find("lr is given twice"),
            std::string::npos);
}

TEST_F(Program, lists_the_suites_of_the_folder_it_is_in) {
  put("suites/gelu.toml", small_suite);
  const Ran suites = opbound("list suites");
  EXPECT_EQ(suites.code, 0);
  EXPECT_NE(suites.out.find("suites/gelu.toml"), std::string::npos);
  const Ran cases = opbound("list cases");
  EXPECT_NE(cases.out.find("small: forward fp32 approximate=none erfc n=64 x=normal seed=1\n"),
            std::string::npos)
      << cases.out;
  EXPECT_NE(opbound("list variants").out.find("one_plus_erf"), std::string::npos);
  EXPECT_NE(opbound("list gelu").out.find("needs approximate=tanh"), std::string::npos);
  EXPECT_NE(opbound("list matmul").out.find("needs scaled=true"), std::string::npos);
}

TEST_F(Program, runs_a_tier_and_appends_its_records) {
  put("suites/gelu.toml", small_suite);
  const Ran quick = opbound("run --out r.jsonl");
  EXPECT_EQ(quick.code, 0) << quick.err;
  EXPECT_EQ(quick.err, "");
  EXPECT_NE(quick.out.find("\nwithin 2, vacuous 0, skipped 0, undecided 0, exceeds 0, failed 0; "
                           "128 elements checked\n"),
            std::string::npos)
      << quick.out;
  const Ran full = opbound("run suites/gelu.toml --tier full --out r.jsonl --quiet");
  EXPECT_EQ(full.out,
            "within 3, vacuous 0, skipped 0, undecided 0, exceeds 0, failed 0; "
            "256 elements checked\n");
  EXPECT_EQ(read_records(path("r.jsonl")).size(), 5U);
}

TEST_F(Program, runs_the_cases_whose_name_or_description_contains_a_text) {
  put("suites/gelu.toml", small_suite);
  const auto first_word = [&](const std::string& words) {
    return opbound("run --quiet " + words).out.substr(0, 9);
  };
  EXPECT_EQ(first_word("--case small"), "within 2,");
  EXPECT_EQ(first_word("--case bf16:"), "within 1,");
  EXPECT_EQ(first_word("--tier full --case larger"), "within 1,");
  refusal("run --case larger");
}

TEST_F(Program, an_exact_description_chooses_one_case_only) {
  put("suites/gelu.toml", small_suite + "seed = [1, 11]\n");
  const Ran ran = opbound(
      "run --tier full --out r.jsonl --case "
      "'forward fp32 approximate=none erfc n=128 x=normal seed=1'");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(read_records(path("r.jsonl")).size(), 1U);
}

TEST_F(Program, finds_that_one_plus_erf_is_not_erfc) {
  put("gelu.toml", naive_suite);
  const Ran ran = opbound("run gelu.toml --out r.jsonl");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.out.find("exceeds"), std::string::npos);
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].verdict, Verdict::exceeds);
  ASSERT_TRUE(records[0].worst.has_value());
  EXPECT_LT(records[0].worst->input.at(0).second, -4);
}

TEST_F(Program, a_missing_device_is_skipped_and_counts_only_where_it_is_required) {
  put("suites/gelu.toml", small_suite);
  const Ran ran = opbound("run --quiet --device cuda:63 --out r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("within 0, vacuous 0, skipped 2,")) << ran.out;
  EXPECT_FALSE(read_records(path("r.jsonl")).at(0).reason.empty());
  EXPECT_EQ(opbound("run --quiet --device cuda:63 --require cuda").code, 3);
  EXPECT_EQ(opbound("run --quiet --require cuda").code, 3);
  EXPECT_EQ(opbound("run --quiet --require own --require cpu").code, 0);
}

TEST_F(Program, a_sweep_on_a_missing_device_is_skipped_as_a_run_is) {
  put("suites/gelu.toml", small_suite);
  const Ran ran = opbound("sweep gelu --quiet --device cuda:63 --out s.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("within 0, vacuous 0, skipped 2,")) << ran.out;
  const std::vector<Record> records = read_records(path("s.jsonl"));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_FALSE(records[0].reason.empty());
  const Ran required = opbound("sweep gelu --quiet --device cuda:63 --require cuda");
  EXPECT_EQ(required.code, 3);
  EXPECT_TRUE(required.err.starts_with("opbound: required cuda is missing: ")) << required.err;
  EXPECT_EQ(opbound("sweep --quiet --every 65537 --require own --require cpu").code, 0);
  EXPECT_EQ(refusal("sweep gleu").find("opbound: sweep: unknown op 'gleu' (gelu?), expected"), 0U);
}

TEST_F(Program, functions_of_a_missing_device_are_skipped) {
  const Ran ran = opbound("functions expf hexp --device cuda:63 --out f.jsonl --quiet");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::vector<Record> records = read_records(path("f.jsonl"));
  ASSERT_EQ(records.size(), 3U);  // hexp is a function of fp16 and one of bf16
  for (const Record& r : records) EXPECT_EQ(r.verdict, Verdict::skipped);
  EXPECT_EQ(records[0].contract, "documented: 2 ulp");
  EXPECT_EQ(opbound("functions expf --device cuda:63 --require cuda").code, 3);
  EXPECT_NE(refusal("functions expff").find("unknown function expff"), std::string::npos);
}

TEST_F(Program, functions_are_of_a_cuda_device_only) {
  for (const char* device : {"cpu", "cdua", "cuda:x"})
    EXPECT_EQ(refusal(std::string("functions expf --device ") + device),
              std::string("opbound: --device: '") + device + "', expected cuda or cuda:N\n");
  // no GPU is seen, whether there is one or not
  const Ran ran =
      shell("CUDA_VISIBLE_DEVICES= " OPBOUND_PROGRAM " functions --out f.jsonl --quiet");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const Record& r : read_records(path("f.jsonl"))) {
    EXPECT_EQ(r.verdict, Verdict::skipped) << r.op;
    EXPECT_FALSE(r.reason.empty()) << r.op;
  }
}

TEST_F(Program, conversions_are_functions_too) {
  const Ran ran = opbound(
      "functions __float2half_rz __nv_cvt_float_to_fp8 __double2float_rn --device cuda:63 --out "
      "c.jsonl --quiet");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::vector<Record> records = read_records(path("c.jsonl"));
  ASSERT_EQ(records.size(), 6U);  // two formats of fp8, with and without saturation
  for (const Record& r : records) EXPECT_EQ(r.kind, CheckKind::exact);
  EXPECT_EQ(records[0].contract, "rounded toward zero");
  EXPECT_EQ(records[0].precision, "fp32:fp32:fp16");
  EXPECT_EQ(records[1].inputs.input, "x=doubles around values and midpoints of fp32");
  EXPECT_EQ(attributes_text(records[3].attributes), "saturation=SATFINITE");
}

TEST_F(Program, functions_of_a_file_are_a_table) {
  Record r;
  r.op = "expf";
  r.precision = "fp32";
  r.provider = "CUDA";
  r.contract = "documented: 2 ulp";
  r.counts = {7, 1, 0, 0, 8};
  r.verdict = Verdict::exceeds;
  r.error_ulp_max = 3.25;
  r.worst = Worst{5, {{"x", 1.5}}, 4, 4.5, 4.5, 1e-7};
  put("f.jsonl", to_json(r) + "\n");
  const Ran ran = opbound("functions --records f.jsonl --markdown");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("| function |")) << ran.out;
  EXPECT_NE(ran.out.find("| expf | fp32 | 3.25 | 1 | 0x1.8p+0 | 2 ulp | 2 | 7 | exceeds |"),
            std::string::npos)
      << ran.out;
  Record other = r;
  other.op = "hexp";
  put("two.jsonl", to_json(r) + "\n" + to_json(other) + "\n");
  EXPECT_EQ(opbound("functions expf --records two.jsonl --markdown").out, ran.out);
  EXPECT_NE(opbound("functions --records two.jsonl --markdown").out, ran.out);
  EXPECT_NE(refusal("functions sinf --records two.jsonl").find("no record of sinf"),
            std::string::npos);
  r.provider = "torch";
  put("none.jsonl", to_json(r) + "\n");
  EXPECT_NE(refusal("functions --records none.jsonl").find("no function of CUDA"),
            std::string::npos);
}

TEST_F(Program, what_is_required_is_asked_for_before_anything_runs) {
  put("gelu.toml", naive_suite);
  const Ran ran = opbound("run gelu.toml --require cuda:63 --out r.jsonl");
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err,
            "opbound: required cuda:63 is missing: neither a provider nor the device of this "
            "run\n");
  EXPECT_FALSE(std::filesystem::exists(path("r.jsonl")));
}

TEST_F(Program, prints_the_table_of_a_file_in_every_style) {
  put("suites/gelu.toml", small_suite);
  const Ran ran = opbound("run --out r.jsonl");
  EXPECT_EQ(opbound("table r.jsonl").out, ran.out);
  EXPECT_TRUE(opbound("table r.jsonl --markdown").out.starts_with("| op |"));
  EXPECT_TRUE(opbound("table r.jsonl --csv").out.starts_with("op,"));
  opbound("run --out r.jsonl");
  const auto lines = [&](const std::string& words) {
    const std::string text = opbound(words).out;
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("table r.jsonl --csv --all"), lines("table r.jsonl --csv") + 2);
}

TEST_F(Program, tables_in_a_file_are_as_wide_as_columns_say) {
  put("suites/gelu.toml", small_suite);
  opbound("run --out r.jsonl");
  const std::string narrow = shell("COLUMNS=80 " OPBOUND_PROGRAM " table r.jsonl").out;
  EXPECT_NE(narrow.find("too narrow for: "), std::string::npos) << narrow;
  EXPECT_EQ(opbound("table r.jsonl").out.find("too narrow"), std::string::npos);
}

TEST_F(Program, the_overview_of_all_tells_variants_and_attributes_apart) {
  put("suites/gelu.toml", small_suite + "attributes = {approximate = [\"none\", \"tanh\"]}\n");
  opbound("run --tier full --out r.jsonl");
  const auto rows = [&](const std::string& words) {
    const std::string text = opbound("table r.jsonl --overview --csv" + words).out;
    return std::count(text.begin(), text.end(), '\n') - 1;
  };
  EXPECT_EQ(rows(""), 2);
  EXPECT_EQ(rows(" --all"), 3);
}

TEST_F(Program, says_what_to_type_instead) {
  put("suites/gelu.toml", small_suite);
  const auto says = [&](const std::string& words, const std::string& what) {
    const std::string line = refusal(words);
    EXPECT_TRUE(line.starts_with("opbound: " + what)) << line;
  };
  says("rnu suites/gelu.toml", "command line: unknown command 'rnu' (run?), expected one of run, ");
  says("--quiet run", "command line: The following argument");
  says("run gelu", "run: 'gelu' is no file, expected its suite: opbound run suites/gelu.toml\n");
  says("run small", "run: 'small' is no file, expected suite files, or --case small\n");
  says("run suites", "run: 'suites' is a folder, expected suite files, or --suites suites\n");
  says("run gelu.toml", "gelu.toml: no such file, expected a file that exists\n");
  says("list gelu --attribute approximate",
       "--attribute: 'approximate' has no '=', expected NAME=VALUE with approximate\n");
  says("list gelu --attribute aproximate=tanh",
       "--attribute: unknown attribute 'aproximate' (approximate?), expected NAME=VALUE with "
       "approximate\n");
  says("list bias --attribute x", "--attribute: 'x' has no '=', expected none: the op has no ");
}

TEST_F(Program, refuses_wrong_use_and_wrong_files_in_one_line) {
  put("suites/gelu.toml", small_suite);
  put("bad/gelu.toml", "op = \"gelu\"\n[[case]]\nprecison = \"fp32\"\nshape = [8]\n");
  put("empty.jsonl", "");
  put("other.jsonl", "{\"schema\":9}\n");
  opbound("run --out torn.jsonl");
  put("torn.jsonl", get("torn.jsonl") + "{\"schema\":1,\"kind\"");
  std::filesystem::create_directories(path("none"));
  for (const char* words : {"",
                            "nonsense",
                            "run --nonsense",
                            "run --tier daily",
                            "run --device tpu",
                            "run --device cuda:x",
                            "run --provider nonsense",
                            "run missing.toml",
                            "run --suites none",
                            "run --suites missing",
                            "run --out none",
                            "run --out /dev/null/r.jsonl",
                            "run --out other.txt/r.jsonl",
                            "run --out suites/gelu.toml",
                            "run bad/gelu.toml",
                            "list nonsense",
                            "table",
                            "table missing.jsonl",
                            "table empty.jsonl",
                            "table other.jsonl",
                            "table torn.jsonl",
                            "table --csv --markdown torn.jsonl",
                            "explain missing.jsonl",
                            "explain empty.jsonl",
                            "explain torn.jsonl:1",
                            "check",
                            "check --op gelu"})
    refusal(words);
  EXPECT_NE(refusal("run bad/gelu.toml").find("bad/gelu.toml:3: "), std::string::npos);
}

TEST_F(Program, a_full_disk_is_one_line_and_no_record_is_lost) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  put("suites/gelu.toml", small_suite);
  EXPECT_NE(refusal("run --out /dev/full").find("No space left"), std::string::npos);
  EXPECT_EQ(shell(OPBOUND_PROGRAM " list >/dev/full").code, 2);
  // records beyond 4 blocks of 512 bytes do not fit: what was written before stays readable
  const Ran ran =
      shell("trap '' XFSZ; ulimit -f 4; " OPBOUND_PROGRAM " run --tier full --out r.jsonl");
  EXPECT_EQ(ran.code, 2);
  EXPECT_FALSE(read_records(path("r.jsonl")).empty());
}

TEST_F(Program, an_interrupt_keeps_all_finished_records) {
  std::string seeds = "1";
  for (int seed = 2; seed <= 2000; ++seed) seeds += ", " + std::to_string(seed);
  put("gelu.toml", "op = \"gelu\"\nseed = [" + seeds + "]\n[[case]]\nprecision = \"fp32\"\n" +
                       "shape = [20000]\n");
  const pid_t child = fork();
  if (child == 0) {
    const std::string suite = path("gelu.toml"), out = path("r.jsonl");
    execl(OPBOUND_PROGRAM, OPBOUND_PROGRAM, "run", suite.c_str(), "--out", out.c_str(), "--quiet",
          nullptr);
    _exit(99);
  }
  while (get("r.jsonl").empty() && waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const std::size_t kept = read_records(path("r.jsonl")).size();
  EXPECT_GE(kept, 1U);
  EXPECT_LT(kept, 2000U);
}

}  // namespace
}  // namespace opbound
