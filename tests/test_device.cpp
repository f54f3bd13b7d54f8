// What only a device can show; skipped without one. The machine that has one runs
// `ctest -L device`.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "distributed/trace/device_sums.hpp"
#include "distributed/train/machine.hpp"
#include "reference/certify_device.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"
#include "suites/sweep.hpp"

namespace opbound {
namespace {

/// Skips where there is no device.
class Device : public testing::Test {
 protected:
  void SetUp() override {
    try {
      own = own_device_provider(0);
    } catch (const Unavailable& e) {
      GTEST_SKIP() << e.what();
    }
  }
  std::unique_ptr<Provider> own;
};
using FullDevice = Device;

/// The program may have been built elsewhere: then it runs in the repository's root.
std::vector<CaseSpec> cases_of(const Op& op) {
  const std::string file = "suites/" + std::string(op.name) + ".toml";
  const std::string built_from = std::string(OPBOUND_SOURCE_DIR) + "/" + file;
  return read_suite(std::filesystem::exists(built_from) ? built_from : file).cases;
}

/// Parts that begin and end within blocks and rows, one of them empty, with NaN and infinity in
/// them.
TEST_F(Device, SumsAGradientAsTheHostDoes) {
  std::vector<float> g(100000);
  for (std::size_t i = 0; i < g.size(); ++i)
    g[i] = static_cast<float>(std::sin(static_cast<double>(i)) * std::pow(2.0, i % 97) * 1e-20);
  g[70] = std::numeric_limits<float>::quiet_NaN();
  g[99999] = std::numeric_limits<float>::infinity();
  const std::vector<trace::SummedPart> parts{
      {7, 0, 16384, 0}, {8, 100, 50001, 3}, {9, 0, 0, 0}, {10, 16383, 2, 60000}, {11, 5, 99995, 5}};
  const auto machine = train::device_machine(0);
  const auto bytes = static_cast<std::int64_t>(g.size() * sizeof(float));
  std::byte* const there = machine->allocate(bytes);
  machine->write(there, g.data(), bytes);
  const auto sums = trace::device_sums(parts);
  sums->start(there, machine->stream());
  const std::vector<trace::GradientSums> got = sums->finish();
  ASSERT_EQ(got.size(), parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p)
    EXPECT_TRUE(got[p] == trace::sums_of(parts[p].key, parts[p].first, parts[p].count,
                                         Element::fp32, g.data() + parts[p].offset))
        << p;
}

/// Outputs, bounds, references, verdicts and statistics of every op's quick cases: the host's bits.
TEST_F(FullDevice, JudgesAsTheHostDoes) {
  for (const Op& op : all_ops())
    for (const CaseSpec& spec : cases_of(op)) {
      if (spec.tier != Tier::quick) continue;
      for (const Record& r : run_case(spec, *own, Agreement::all))
        EXPECT_TRUE(r.verdict == Verdict::within || !r.allowed_vacuous.empty())
            << op.name << " " << identity(spec) << " " << r.part << ": " << name_of(r.verdict)
            << " " << r.reason;
    }
}

/// A sweep's inlined kernel gives the bits of the launched one.
TEST_F(Device, SweepsTheKernelThatIsLaunched) {
  for (const CaseSpec& spec : sweeps_of(cases_of(*find_op("gelu")))) {
    if (spec.direction != Direction::forward || spec.precision.storage == fp32) continue;
    CaseSpec all = spec;  // every pattern as one tensor
    all.sizes = {1 << 16};
    Prepared prepared = prepare(all);
    TensorView& x = prepared.call.forward[0];
    for (std::int64_t i = 0; i < x.count(); ++i)
      x.set(i, decode(spec.precision.storage, static_cast<std::uint64_t>(i)));
    own->run(*spec.op, prepared.call);
    const Record swept = run_sweep(spec, *own, 1, [](std::uint64_t) {}).front();
    EXPECT_EQ(swept.output_hash, hash_of(prepared.tensors.find("y")->second)) << identity(spec);
    EXPECT_EQ(swept.verdict, Verdict::within);
  }
}

/// NaN, infinities, numbers whose sum overflows, zeros of both signs: a row of each.
void mark_rows(TensorView& x) {
  const std::int64_t n = x.size[1];
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = format_of(x.element).largest();
  x.set(1 * n + 5, std::numeric_limits<double>::quiet_NaN());
  x.set(2 * n + n - 1, infinity);
  x.set(3 * n, -infinity);
  for (std::int64_t i = 4 * n; i < 5 * n; ++i) x.set(i, i % 3 == 0 ? -largest : largest);
  for (std::int64_t i = 5 * n; i < 6 * n; ++i) x.set(i, i % 2 == 0 ? 0.0 : -0.0);
}

/// Rows of some lengths stay in registers, those that are not aligned or are longer do not; every
/// output has the host's bits.
TEST_F(Device, GivesTheHostsBitsHoweverARowIsKept) {
  for (const char* op : {"softmax", "layer_norm", "rms_norm"})
    for (const char* precision : {"bf16:fp32:bf16", "fp16:fp32:fp16", "fp32"})
      for (const std::int64_t n : {1000, 1024, 2048, 4096, 8192})
        for (const Layout layout : {Layout::contiguous, Layout::unaligned}) {
          CaseSpec spec;
          spec.op = find_op(op);
          spec.attributes = spec.op->default_attributes;
          spec.precision = *precision_named(precision);
          spec.sizes = {7, n};
          InputSpec x;
          x.layout = layout;
          spec.inputs = {{"x", x}};
          Prepared here = prepare(spec), there = prepare(spec);
          mark_rows(here.call.forward[0]);
          mark_rows(there.call.forward[0]);
          spec.op->run(here.call);
          own->run(*spec.op, there.call);
          for (std::size_t t = 0; t < here.call.forward.size(); ++t) {
            const std::string name(spec.op->forward.tensors[t].name);
            if (!spec.op->forward.tensors[t].is_written()) continue;
            EXPECT_EQ(hash_of(there.tensors.find(name)->second),
                      hash_of(here.tensors.find(name)->second))
                << name << " " << identity(spec);
          }
        }
}

CaseSpec large_product() {
  CaseSpec spec;
  spec.op = find_op("matmul");
  spec.attributes = spec.op->default_attributes;
  spec.precision = *precision_named("bf16:fp32:bf16");
  spec.sizes = {1024, 1040, 2050};  // edges of every tile
  spec.inputs = {{"a", {}}, {"b", {}}};
  return spec;
}

/// The same inputs, with one element of the result wrong by a part of its row's magnitude: the host
/// holds the result, and a provider that runs nothing leaves it as it is.
class Finished final : public Provider {
 public:
  explicit Finished(const Provider& device) : device_(device) {}
  std::string name() const override { return "finished"; }
  std::string version() const override { return {}; }
  std::string device() const override { return device_.device(); }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  Contract contract(const Op& op, std::vector<int> variants) const override {
    return device_.contract(op, std::move(variants));
  }
  void run(const Op&, const Call&) const override {}
  bool is_on_device() const override { return true; }
  void select_device() const override { device_.select_device(); }
  void run_on_device(const Op&, const Call&) const override {}

 private:
  const Provider& device_;
};

TEST_F(Device, FindsOneWrongElementOfALargeProduct) {
  const CaseSpec spec = large_product();
  Prepared prepared = prepare(spec);
  own->run(*spec.op, prepared.call);
  TensorView d = prepared.call.forward.back();
  const Finished finished(*own);
  EXPECT_EQ(certify_on_device(finished, *spec.op, prepared.call)[0].counts.exceeds, 0U);
  EXPECT_EQ(quick_check_on(finished, *spec.op, prepared.call, 1)->failing, 0);
  const std::int64_t wrong = 700 * d.size[1] + 1039;
  const double right = d.at(wrong);
  d.set(wrong, right + 4);  // of about 45: a dropped term or two
  const auto checks = certify_on_device(finished, *spec.op, prepared.call);
  EXPECT_EQ(checks[0].counts.exceeds, 1U);
  EXPECT_EQ(checks[0].worst.index, static_cast<std::uint64_t>(wrong));
  d.set(wrong, right + 4000);  // beyond the slack of a whole row
  EXPECT_EQ(quick_check_on(finished, *spec.op, prepared.call, 1)->failing, 1);
}

TEST_F(Device, CertifiesALargeProduct) {
  const CaseSpec spec = large_product();
  Prepared prepared = prepare(spec);
  const auto checks = certify_on_device(*own, *spec.op, prepared.call);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_TRUE(checks[0].is_of_every_order);
  EXPECT_EQ(checks[0].counts.within, checks[0].counts.checked);
  EXPECT_GT(checks[0].ratio, 0);
}

}  // namespace
}  // namespace opbound
