// Every op, registered at run time from its suite and its planted faults:
//   op.<name>.<direction>_<precision>   every quick case of the suite is within its bound
//   op.<name>.full_<...>                the full tier's cases
//   op.<name>.full_any_order            our own order is within the bound of any order
//   op.<name>.fault_<fault>             the fault exceeds, the right kernel passes the same inputs
//   op.<name>.sharp                     bounds are neither exceeded nor idle
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "reports/record.hpp"
#include "suites/run.hpp"
#include "tests/faults/fault.hpp"
#include "tests/faulty_provider.hpp"

namespace opbound {
namespace {

Suite suite_of(const Op& op) {
  return read_suite(std::string(OPBOUND_SOURCE_DIR) + "/suites/" + std::string(op.name) + ".toml");
}

std::string describe(const Record& r) { return print_record(r); }

bool passes(const Record& r) {
  return r.verdict == Verdict::within ||
         (r.verdict == Verdict::vacuous && !r.allowed_vacuous.empty());
}

/// Every n-th case with OPBOUND_SAMPLE=n: the sanitizers' build is slow and looks for other things
/// than verdicts.
std::vector<CaseSpec> sample_of(const std::vector<CaseSpec>& cases) {
  const char* text = std::getenv("OPBOUND_SAMPLE");
  const std::size_t step = text == nullptr ? 1 : std::max(1L, std::strtol(text, nullptr, 10));
  std::vector<CaseSpec> chosen;
  for (std::size_t i = 0; i < cases.size(); i += step) chosen.push_back(cases[i]);
  return chosen;
}

void run_cases(const std::vector<CaseSpec>& cases) {
  const auto own = own_host_provider();
  for (const CaseSpec& spec : sample_of(cases))
    for (const Record& r : run_case(spec, *own)) EXPECT_TRUE(passes(r)) << describe(r);
}

void find_fault(const Fault& fault) {
  const CaseSpec spec = case_of(fault);
  for (const Record& r : run_case(spec, *own_host_provider()))
    EXPECT_EQ(r.verdict, Verdict::within) << "the right kernel:\n" << describe(r);
  ASSERT_TRUE(fault.kernel.control) << "an emulated kernel needs a control";
  for (const Record& r : run_case(spec, FaultyProvider("control", fault.kernel.control)))
    EXPECT_EQ(r.verdict, Verdict::within) << "the same kernel without the fault:\n" << describe(r);
  Verdict worst = Verdict::within;
  for (const Record& r : run_case(spec, FaultyProvider(fault.name, fault.kernel.run)))
    worst = worse(worst, r.verdict);
  EXPECT_EQ(worst, Verdict::exceeds) << fault.what;
}

/// A variant that cancels has an honest, wide bound; the default one must be sharp: approached in
/// fp32, and for every 16-bit input of an elementwise op nearly a test of bits.
/// The two figures are not bounds: they are what this project asks of its own sharpness.
void check_sharpness(const std::vector<CaseSpec>& cases) {
  const auto own = own_host_provider();
  double largest_fp32_ratio = 0;
  for (const CaseSpec& spec : sample_of(cases)) {
    const bool is_default = spec.variant == spec.op->default_variant(spec.attributes);
    const bool is_fp32 = spec.precision == Precision{};
    const bool is_every_pattern = spec.precision.compute == fp32 && !spec.inputs.empty() &&
                                  spec.inputs.front().second.kind == "every_pattern";
    if (!is_default || spec.tier != Tier::quick || (!is_fp32 && !is_every_pattern)) continue;
    for (const Record& r : run_case(spec, *own)) {
      if (is_fp32 && r.verdict == Verdict::within)
        largest_fp32_ratio = std::max(largest_fp32_ratio, r.ratio.value_or(0));
      if (is_every_pattern) {
        EXPECT_LE(r.acceptable_mean.value_or(0), 1.05) << describe(r);
      }
    }
  }
  testing::Test::RecordProperty("largest_fp32_ratio", std::to_string(largest_fp32_ratio));
  EXPECT_LE(largest_fp32_ratio, 1);
  if (std::getenv("OPBOUND_SAMPLE") != nullptr) return;
  EXPECT_GE(largest_fp32_ratio, 0.3) << "a bound that is never approached says little";
}

/// What our own kernel declares where another one would: its functions' errors, no order.
Contract in_any_order(const CaseSpec& spec) {
  Contract c;
  c.variants = spec.declared;
  c.order = Contract::Order::any;
  for (std::size_t f = 0; f < c.functions.ulp.size(); ++f) {
    const auto function = static_cast<Function>(f);
    c.functions.ulp[f] = spec.precision.compute == fp64 ? fp64_error_ulp(function)
                         : function == Function::pow    ? 1
                                                        : 0;
  }
  return c;
}

/// Our own order is one of any order.
void check_any_order(const std::vector<CaseSpec>& cases) {
  const auto own = own_host_provider();
  for (const CaseSpec& spec : cases) {
    if (spec.tier != Tier::quick) continue;
    Prepared prepared = prepare(spec);
    own->run(*spec.op, prepared.call);
    for (const Record& r : judge_case(spec, *own, prepared, in_any_order(spec)))
      EXPECT_TRUE(r.verdict == Verdict::within || r.verdict == Verdict::vacuous) << describe(r);
  }
}

class Check : public testing::Test {
 public:
  explicit Check(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void add(std::string_view op, const std::string& name, std::function<void()> body) {
  const std::string suite = "op." + std::string(op);
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [body = std::move(body)]() -> Check* { return new Check(body); });
}

std::string group_of(const CaseSpec& spec) {
  std::string name = spec.tier == Tier::quick ? "" : "full_";
  name.append(name_of(spec.direction)).append("_").append(name_of(spec.precision));
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

void add_suite(const Op& op) {
  std::map<std::string, std::vector<CaseSpec>> groups;
  const Suite suite = suite_of(op);
  for (const CaseSpec& spec : suite.cases) groups[group_of(spec)].push_back(spec);
  for (const auto& group : groups)
    add(op.name, group.first, [cases = group.second] { run_cases(cases); });
  add(op.name, "full_any_order", [cases = suite.cases] { check_any_order(cases); });
  add(op.name, "sharp", [cases = suite.cases] { check_sharpness(cases); });
}

/// Reading every suite takes longer than most tests, and ctest runs each in a process of its own:
/// one whose filter begins with "op.<name>." needs no other op.
bool is_wanted(const Op& op) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string line((std::istreambuf_iterator<char>(file)), {});
  const std::string key = "--gtest_filter=op.";
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return true;
  const std::string name =
      line.substr(at + key.size(), line.find('.', at + key.size()) - at - key.size());
  return name == op.name || name.find('*') != std::string::npos;
}

[[maybe_unused]] const bool registered = [] {
  for (const Op& op : all_ops()) {
    if (!is_wanted(op)) continue;
    try {
      add_suite(op);
    } catch (const std::exception& e) {
      add(op.name, "suite", [what = std::string(e.what())] { FAIL() << what; });
    }
  }
  static const std::vector<Fault> faults = all_faults();
  for (const Fault& fault : faults)
    add(fault.op, "fault_" + std::string(fault.name), [&fault] { find_fault(fault); });
  return true;
}();

TEST(Ops, EveryOpHasAtLeastFourPlantedFaults) {
  std::map<std::string_view, int> count;
  for (const Fault& f : all_faults()) ++count[f.op];
  for (const Op& op : all_ops()) EXPECT_GE(count[op.name], 4) << op.name;
}

}  // namespace
}  // namespace opbound
