// opbound run --provider FILE.so: right plug-ins, broken ones, and files that are none.
#include <algorithm>

#include "ops/providers/plugin.hpp"
#include "reports/history.hpp"
#include "suites/foreign.hpp"
#include "suites/rerun.hpp"
#include "tests/faulty_kernel.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

const std::string suite = R"toml(op = "gelu"
[[case]]
precision = "fp32"
variant = "erfc"
shape = [[64], [128]]
)toml";

std::string plugin(const std::string& name) {
  return std::string(OPBOUND_PLUGINS) + "/" + name + ".so";
}

class ProgramPlugin : public Program {
 protected:
  ProgramPlugin() { put("gelu.toml", suite); }

  /// Runs the suite, or what else `words` name, by faulty.so with this fault.
  Ran with_fault(const std::string& fault, const std::string& words = "gelu.toml") const {
    return shell("OPBOUND_TEST_FAULT='" + fault + "' " OPBOUND_PROGRAM " run " + words +
                 " --provider " + plugin("faulty") + " --provider-timeout 2 --out r.jsonl");
  }
  std::vector<Record> records() const { return read_records(path("r.jsonl")); }
};

TEST_F(ProgramPlugin, judges_the_example_in_c) {
  const Ran ran = opbound("run gelu.toml --out r.jsonl --provider " + plugin("gelu"));
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  ASSERT_EQ(records().size(), 2U);
  for (const Record& r : records()) {
    EXPECT_EQ(r.verdict, Verdict::within);
    EXPECT_EQ(r.provider, "mygelu");
    EXPECT_EQ(r.provider_version, "1.0");
    EXPECT_EQ(r.device, "cpu");
    EXPECT_EQ(r.contract, "erfc, any order, functions as CUDA documents");
    EXPECT_EQ(r.environment, (Named<std::string>{{"plugin", plugin("gelu")}}));
  }
}

TEST_F(ProgramPlugin, a_broken_call_is_a_failed_record_and_the_run_goes_on) {
  const std::vector<std::pair<std::string, std::string>> faults {
    {"crash", "it crashed: Segmentation fault"}, {"crash far away", "it crashed: "},
        {"hang", "it gave no answer within 2 s"}, {"exit", "it ended its process with exit code 3"},
        {"behind", "it wrote outside of its tensors: 1 byte behind the end of y"},
        {"before", "it wrote outside of its tensors: 12 bytes before the beginning of y"},
        {"next tensor", "it wrote outside of its tensors: 1 byte behind the end of y"},
        {"workspace", "it wrote outside of its tensors: 1 byte behind the end of the workspace"},
        {"input", "it changed its input x"}, {"shape", "it changed the description of y"},
#if defined(__x86_64__)
        {"ftz", "it left the processor's mode changed: flush to zero (FTZ)"},
        {"daz", "it left the processor's mode changed: denormals are zero (DAZ)"},
#endif
        {"rounding", "it left the processor's mode changed: the rounding mode"},
        {"liar", "it supports the call by supports() and does not by run()"},
        {"status", "it returned 7, which is no status of ops/provider.h"}, {
      "says so", "it says that it failed: no luck today"
    }
  };
  for (const auto& [fault, reason] : faults) {
    std::filesystem::remove(path("r.jsonl"));
    const Ran ran = with_fault(fault);
    EXPECT_EQ(ran.code, 1) << fault << ran.err;
    ASSERT_EQ(records().size(), 2U) << fault;
    EXPECT_EQ(records()[0].verdict, Verdict::failed) << fault;
    EXPECT_TRUE(records()[0].reason.starts_with("faulty: " + reason))
        << fault << ": " << records()[0].reason;
    EXPECT_EQ(records()[1].verdict, Verdict::within) << fault;
  }
}

TEST_F(ProgramPlugin, what_is_wrong_in_an_output_is_judged) {
  for (const char* fault : {"nan", "unwritten"}) {
    std::filesystem::remove(path("r.jsonl"));
    EXPECT_EQ(with_fault(fault).code, 1);
    EXPECT_EQ(records()[0].verdict, Verdict::exceeds) << fault;
    EXPECT_EQ(records()[0].nonfinite_mismatch, fault == std::string("nan") ? 1U : 64U);
    EXPECT_EQ(records()[1].verdict, Verdict::within) << fault;
  }
}

TEST_F(ProgramPlugin, is_swept_over_patterns) {
  const std::string sweep = " sweep gelu --suites . --out r.jsonl --every ";
  EXPECT_EQ(opbound(sweep + "16380 --provider " + plugin("gelu")).code, 0);
  const std::string one_call = std::to_string((std::int64_t{1} << 32) / 64);
  const std::string faulty = OPBOUND_PROGRAM + sweep + one_call + " --provider " + plugin("faulty");
  EXPECT_EQ(shell("OPBOUND_TEST_FAULT=nan " + faulty).code, 1);
  ASSERT_EQ(records().size(), 2U);
  const Record right = records()[0], wrong = records()[1];
  EXPECT_EQ(right.verdict, Verdict::within);
  EXPECT_EQ(right.counts.checked, (1U << 18U) + 65);  // two calls
  EXPECT_EQ(right.contract, "erfc, any order, functions as CUDA documents");
  EXPECT_EQ(right.inputs.input, "x=every pattern, each 16380th");
  EXPECT_EQ(right.rungs->dd + right.rungs->mpfr, right.counts.checked);
  EXPECT_EQ(wrong.counts.exceeds, 1U);
  EXPECT_EQ(wrong.worst->index, 32U);
}

TEST_F(ProgramPlugin, what_breaks_every_call_fails_every_record) {
  std::vector<std::pair<std::string, std::string>> faults{
      {"crash in supports", "faulty: it crashed: Aborted"},
      {"greedy", "the plug-in's tensors and workspace need "}};
#if defined(__x86_64__)
  faults.emplace_back("ftz at load",
                      "faulty: loading it left the processor's mode changed: flush to zero (FTZ)");
#endif
  for (const auto& [fault, reason] : faults) {
    std::filesystem::remove(path("r.jsonl"));
    EXPECT_EQ(with_fault(fault).code, 1);
    ASSERT_EQ(records().size(), 2U) << fault;
    for (const Record& r : records())
      EXPECT_TRUE(r.verdict == Verdict::failed && r.reason.starts_with(reason)) << r.reason;
  }
  std::filesystem::remove(path("r.jsonl"));
  EXPECT_EQ(opbound("run gelu.toml --out r.jsonl --provider " + plugin("thrower")).code, 1);
  // a program that has a libstdc++ of its own, linked statically, cannot catch what it throws
  const std::string reason = records()[1].reason;
  EXPECT_TRUE(reason == "thrower: it threw an exception: thrown on purpose" ||
              reason == "thrower: it crashed: Aborted (signal 6)")
      << reason;
}

TEST_F(ProgramPlugin, what_is_no_plugin_is_one_line_and_exit_2) {
  const std::vector<std::pair<std::string, std::string>> faults{
      {"crash at load", "cannot be loaded: it crashed"},
      {"hang at load", "cannot be loaded: it gave no answer"},
      {"null", "gives NULL"},
      {"refusal", "FAULTY_SETTING is 'perhaps', expected on or off"},
      {"struct_size", "struct_size is 16"},
      {"abi_version", "abi_version is 2, expected 1"},
      {"device", "device is 5"},
      {"nameless", "has no name"},
      {"named own", "is named 'own'"},
      {"no run", "has no function run"},
      {"op", "lists op 'gleu'"},
      {"direction", "lists direction 'sideways'"},
      {"variant", "lists variant 'tanhh' of gelu"},
      {"function", "lists function 'erfcf'"},
      {"ulp", "lists function erfc with an error of -1 ulp"}};
  for (const auto& [fault, line] : faults) {
    const Ran ran = with_fault(fault);
    EXPECT_EQ(ran.code, 2) << fault;
    EXPECT_EQ(ran.out, "") << fault;
    EXPECT_NE(ran.err.find("faulty.so: "), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find(line), std::string::npos) << fault << ": " << ran.err;
    EXPECT_EQ(ran.err.find('\n') + 1, ran.err.size()) << ran.err;
  }
  put("text.so", "no library");
  EXPECT_NE(refusal("run gelu.toml --provider ./text.so").find("./text.so: cannot be opened"),
            std::string::npos);
  refusal("run gelu.toml --provider ./missing.so");
  refusal("run gelu.toml --provider .");
  refusal("run gelu.toml --provider nonsense");
  refusal("run gelu.toml --provider-timeout 0");
}

TEST_F(ProgramPlugin, a_plugin_without_a_kernel_is_skipped_with_its_reason) {
  put("softmax.toml",
      "op = \"softmax\"\n[[case]]\nprecision = \"fp32\"\nshape = [[2, 3], [4, 5]]\n");
  put("bf16/gelu.toml", "op = \"gelu\"\n[[case]]\nprecision = \"bf16:fp32:bf16\"\nshape = [64]\n");
  const Ran ran = with_fault("", "softmax.toml bf16/gelu.toml");
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_EQ(records().size(), 2U);  // one for all softmax cases of an algorithm
  EXPECT_EQ(records()[0].reason, "faulty lists no kernel for softmax forward by division");
  EXPECT_EQ(records()[1].reason, "faulty: fp32 only, forward");
  for (const Record& r : records()) EXPECT_EQ(r.verdict, Verdict::skipped);
}

TEST_F(ProgramPlugin, several_providers_run_after_one_another) {
  const Ran ran = opbound(
      "run gelu.toml --out r.jsonl --require mygelu --provider own --provider " + plugin("gelu"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_EQ(records().size(), 4U);
  EXPECT_EQ(records()[1].provider, "own");
  EXPECT_EQ(records()[2].provider, "mygelu");
  EXPECT_EQ(opbound("run gelu.toml --require own --provider " + plugin("gelu")).code, 3);
}

TEST_F(ProgramPlugin, its_output_does_not_mix_with_ours) {
  const Ran quiet = with_fault("prints", "gelu.toml --quiet");
  EXPECT_EQ(quiet.code, 0) << quiet.err;
  EXPECT_EQ(quiet.out.find("a line of its own"), std::string::npos);
  EXPECT_TRUE(quiet.out.starts_with("within 2"));
  EXPECT_NE(quiet.err.find("a line of its own"), std::string::npos);
}

TEST_F(ProgramPlugin, explain_runs_its_record_again) {
  opbound("run gelu.toml --out r.jsonl --provider " + plugin("gelu"));
  const Ran without = opbound("explain r.jsonl");
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_NE(without.out.find("not run again: the kernel is the plug-in's; --provider " +
                             plugin("gelu") + " opens it"),
            std::string::npos);
  const Ran with = opbound("explain r.jsonl --provider " + plugin("gelu"));
  EXPECT_EQ(with.code, 0) << with.err;
  EXPECT_NE(with.out.find("run again: the same bits"), std::string::npos) << with.out;
  const std::size_t command = with.out.find("  opbound run ");
  const std::string line = with.out.substr(command, with.out.find('\n', command) - command);
  EXPECT_EQ(shell(OPBOUND_PROGRAM + line.substr(line.find(" run"))).code, 0) << line;
  refusal("explain r.jsonl --provider " + plugin("faulty"));
  refusal("explain r.jsonl --shrink");
  opbound("run gelu.toml --out own.jsonl");
  refusal("explain own.jsonl --provider " + plugin("gelu"));
}

/// Both passes of mygelu, its forward pass by 1 + erf, judged as the erfc form that it lists.
TEST_F(ProgramPlugin, a_case_is_what_the_kernel_is) {
  const auto mygelu = plugin_provider(plugin("gelu"), {});
  std::vector<CaseSpec> cases;
  for (const char* variant : {"erfc", "one_plus_erf", "one_plus_erf"})
    cases.push_back(case_of("gelu", Direction::forward, "fp32", {8}, {}, variant));
  cases[1].allowed_vacuous = "it cancels";
  std::vector<CaseSpec> taken = cases_for(*mygelu, cases);
  ASSERT_EQ(taken.size(), 2U);  // the third is the second
  EXPECT_EQ(taken[0].declared, std::vector<int>{taken[0].variant});
  EXPECT_EQ(
      mygelu->variants(*taken[1].op, Direction::forward, taken[1].attributes, taken[1].variant),
      std::vector<int>{});

  const auto faulty = plugin_provider(plugin("faulty"), {});  // one of the two
  taken = cases_for(*faulty, cases);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].declared.size(), 2U);
  EXPECT_EQ(taken[0].allowed_vacuous, "it cancels");

  const auto own = own_host_provider();
  EXPECT_EQ(cases_for(*own, cases).size(), 3U);
}

TEST_F(ProgramPlugin, functions_are_as_declared) {
  const auto faulty = plugin_provider(plugin("faulty"), {});
  const Op& gelu = *find_op("gelu");
  EXPECT_EQ(faulty->contract(gelu, {0}).functions.ulp, cuda_function_errors.ulp);
  EXPECT_EQ(faulty->environment().front(), std::pair(std::string("mood"), std::string("bad")));
}

/// An older plug-in knows less of the struct: what it does not know is not there.
TEST_F(ProgramPlugin, an_older_plugin_lists_nothing_and_may_be_any_algorithm) {
  const Ran ran = with_fault("old");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(records()[0].contract.starts_with("erfc|one_plus_erf, any order"));
  EXPECT_EQ(records()[0].variant, "erfc|one_plus_erf");
}

TEST_F(ProgramPlugin, the_example_for_cuda_runs_where_there_is_a_device) {
  if (!std::filesystem::exists(plugin("softmax"))) GTEST_SKIP() << "built without CUDA";
  put("softmax.toml", R"toml(op = "softmax"
[[case]]
precision = "fp32"
variant = "division"
shape = [[0, 4], [1, 1], [3, 1000], [100, 257]]
input = {x = ["normal(sigma=5)", "normal @transposed", "normal @unaligned"]}
)toml");
  const Ran ran = opbound("run softmax.toml --out r.jsonl --provider " + plugin("softmax"));
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  for (const Record& r : records()) {
    const bool is_absent = r.reason.starts_with("mysoftmax: no CUDA device");
    EXPECT_EQ(r.verdict, is_absent ? Verdict::skipped : Verdict::within) << r.reason;
  }
}

TEST_F(ProgramPlugin, a_broken_call_on_a_device_is_a_failed_record_and_the_run_goes_on) {
  if (!std::filesystem::exists(plugin("faulty_device"))) GTEST_SKIP() << "built without CUDA";
  put("cast.toml", "op = \"cast\"\n[[case]]\nprecision = \"fp32\"\nshape = [[64], [128]]\n");
  const std::vector<std::pair<std::string, std::string>> faults{
      {"crash", "illegal memory access"},
      {"behind", "it wrote outside of its tensors: 3 bytes behind the end of y"},
      {"input", "it changed its input x"},
      {"hang", "it gave no answer within 5 s"}};
  for (const auto& [fault, reason] : faults) {
    std::filesystem::remove(path("r.jsonl"));
    const Ran ran =
        shell("OPBOUND_TEST_FAULT=" + fault + " " OPBOUND_PROGRAM " run cast.toml --provider " +
              plugin("faulty_device") + " --provider-timeout 5 --out r.jsonl");
    ASSERT_EQ(records().size(), 2U) << ran.err;
    if (records()[0].verdict == Verdict::skipped) GTEST_SKIP() << records()[0].reason;
    EXPECT_EQ(records()[0].verdict, Verdict::failed) << fault;
    EXPECT_NE(records()[0].reason.find(reason), std::string::npos) << records()[0].reason;
    EXPECT_EQ(records()[1].verdict, Verdict::within) << fault;
  }
}

}  // namespace
}  // namespace opbound
