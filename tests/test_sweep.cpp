// Sweeps on the host: what fp64 decides is what MPFR decides; a wrong kernel is found.
#include "suites/sweep.hpp"

#include <gtest/gtest.h>

#include "ops/gelu.hpp"
#include "ops/instantiate/sweep.hpp"
#include "suites/rerun.hpp"

namespace opbound {
namespace {

std::vector<CaseSpec> sweeps(std::string_view op) {
  const std::string file = std::string(OPBOUND_SOURCE_DIR) + "/suites/" + std::string(op) + ".toml";
  return sweeps_of(read_suite(file).cases);
}

std::vector<Record> swept(const CaseSpec& spec, std::uint64_t elements) {
  const auto all = static_cast<std::uint64_t>(sweep_size(spec, 1));
  const std::uint64_t every = all / elements + 1;  // odd sizes reach every exponent
  return run_sweep(spec, *own_host_provider(), every | 1, [](std::uint64_t) {});
}

class SweptOp : public testing::TestWithParam<std::string_view> {};

/// fp64 decides nearly everything; every element gets a verdict, and none is against us.
TEST_P(SweptOp, IsDecidedAndWithin) {
  const auto specs = sweeps(GetParam());
  ASSERT_FALSE(specs.empty());
  for (const CaseSpec& spec : specs)
    for (const Record& r : swept(spec, 20000)) {
      SCOPED_TRACE(identity(spec) + " " + r.part);
      EXPECT_EQ(r.counts.exceeds, 0U);
      EXPECT_EQ(r.counts.undecided, 0U);
      EXPECT_GE(r.counts.checked, std::min<std::int64_t>(10000, sweep_size(spec, 1)));
      EXPECT_GE(r.rungs->fp64 * 20, r.counts.checked * 19);
      EXPECT_EQ(r.rungs->fp64 + r.rungs->dd + r.rungs->mpfr, r.counts.checked);  // room for all
      EXPECT_TRUE(r.worst.has_value());
    }
}
std::vector<std::string_view> swept_ops() {
  std::vector<std::string_view> names;
  for (const Op& op : all_ops())
    if (!sweeps(op.name).empty()) names.push_back(op.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Ops, SweptOp, testing::ValuesIn(swept_ops()),
                         [](const auto& op) { return std::string(op.param); });

TEST(Sweep, TakesEveryPairOfTwoNarrowOperands) {
  for (const CaseSpec& spec : sweeps("gelu")) {
    const bool is_single = spec.direction == Direction::forward && spec.precision.storage != fp32;
    EXPECT_EQ(sweep_size(spec, 1), is_single ? 1 << 16 : std::int64_t{1} << 32);
  }
}

TEST(Sweep, OperandsAreWhatTheirIndexSays) {
  const Operand high{Operand::Values::patterns, bf16, 16, 0};
  EXPECT_EQ(high.at(0x3f80ffff), 1.0);
  const Operand drawn{Operand::Values::drawn, fp32, 0, 5};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(drawn.at(i), 0x1p-8);
    EXPECT_LE(drawn.at(i), 0x1p8);
  }
}

/// Our kernels as if somebody else had made them.
class Stranger final : public Provider {
 public:
  std::string name() const override { return "stranger"; }
  std::string version() const override { return {}; }
  std::string device() const override { return "cpu"; }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  bool is_foreign() const override { return true; }
  Contract contract(const Op&, std::vector<int> variants) const override {
    return {std::move(variants), Contract::Order::any, exact_function_errors, {}};
  }
  void run(const Op& op, const Call& call) const override { own_host_provider()->run(op, call); }
};

/// In tensors of many elements, and each alone: the same bits, and no bound that is exceeded.
TEST(Sweep, SomebodyElsesKernelIsSweptInCalls) {
  int compared = 0;
  for (const std::string_view name : swept_ops())
    for (const CaseSpec& spec : sweeps(name)) {
      const std::uint64_t every = static_cast<std::uint64_t>(sweep_size(spec, 1)) / 200 | 1;
      const auto ours = run_sweep(spec, *own_host_provider(), every, [](std::uint64_t) {});
      std::vector<Record> theirs;
      try {
        theirs = run_sweep(spec, Stranger{}, every, [](std::uint64_t) {});
      } catch (const Unavailable&) {
        continue;  // it cannot be put into calls
      }
      ASSERT_EQ(theirs.size(), ours.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        SCOPED_TRACE(std::string(name) + " " + identity(spec));
        EXPECT_EQ(theirs[i].counts.exceeds + theirs[i].counts.undecided, 0U);
        EXPECT_EQ(theirs[i].counts.checked, ours[i].counts.checked);
        // drawn values may be one for a call; masks and stochastic roundings hang on the place
        const bool hangs_on_place = name == "dropout" || name == "cast";
        if (hangs_on_place || ours[i].inputs.input.find("drawn") != std::string::npos) continue;
        EXPECT_EQ(theirs[i].output_hash, ours[i].output_hash);
        ++compared;
      }
    }
  EXPECT_GT(compared, 50);
}

/// The exact GELU's kernel against the definition of its tanh approximation.
struct exchanged : gelu::forward::elements {
  template <class R, class Team, class Io>
  static void define(const Team& team, const Problem<gelu>& p, const Io& io, std::int64_t block) {
    Problem<gelu> other = p;
    other.attributes.approximate = gelu::Approximate::tanh;
    gelu::forward::elements::define<R>(team, other, io, block);
  }
};

struct NoCounts {
  void decided(double) const {}
  void open(std::int64_t) const {}
};

template <class Part>
Tally tally_with() {
  Sweep sweep;
  sweep.every = 65537;
  sweep.operand[gelu::forward::x] = {Operand::Values::patterns, fp32, 0, 0};
  const detail::SweptElements<gelu, gelu::forward, Part, gelu::forward::y, float> elements{
      sweep, {}, Judge{{fp32, false}, false, fp64_doubt_ulp}};
  return elements.tally(0, 65536, 1, NoCounts{});
}

TEST(Sweep, FindsAnotherFunction) {
  EXPECT_EQ(tally_with<gelu::forward::elements>().exceeds, 0U);
  EXPECT_GT(tally_with<exchanged>().exceeds, 1000U);
}

}  // namespace
}  // namespace opbound
