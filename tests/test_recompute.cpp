// Running again gives the same bits; running again from a rounded input is bounded
// (bounds/README.md 7).
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/parallel.hpp"
#include "ops/provider.hpp"
#include "ops/recompute.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

/// Every job on this many threads while it lives.
class Threads {
 public:
  explicit Threads(std::int64_t count) { forced_threads = count; }
  ~Threads() { forced_threads = 0; }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
};

/// Hashes of what a call computes, by name; poisoned behind it, so that nothing is left for the
/// next.
std::map<std::string, std::string> outputs_of(const CaseSpec& spec, Prepared& prepared,
                                              std::int64_t threads) {
  const Threads forced(threads);
  std::map<std::string, std::string> hashes;
  spec.op->run(prepared.call);
  for (const TensorSpec& t : spec.op->pass(spec.direction).tensors)
    if (t.is_judged()) {
      Tensor& tensor = prepared.tensors.find(t.name)->second;
      hashes[std::string(t.name)] = hash_of(tensor);
      for (std::byte& b : tensor.bytes()) b = std::byte{0x5a};
    }
  return hashes;
}

/// The first case of a suite for each direction, precision, variant and choice of attributes.
std::vector<CaseSpec> one_of_each(const Suite& suite) {
  std::vector<CaseSpec> chosen;
  std::set<std::string> seen;
  for (const CaseSpec& spec : suite.cases) {
    std::string key = std::string(name_of(spec.direction)) + name_of(spec.precision) +
                      std::to_string(spec.variant);
    for (const std::byte b : spec.attributes.bytes) key += static_cast<char>(b);
    if (spec.tier == Tier::quick && seen.insert(key).second) chosen.push_back(spec);
  }
  return chosen;
}

TEST(Recompute, EveryOpGivesTheSameBitsAgainOnAnyNumberOfThreads) {
  for (const Op& op : all_ops()) {
    const std::string path =
        std::string(OPBOUND_SOURCE_DIR) + "/suites/" + std::string(op.name) + ".toml";
    for (const CaseSpec& spec : one_of_each(read_suite(path))) {
      Prepared prepared = prepare(spec);
      const auto once = outputs_of(spec, prepared, 1);
      for (const std::int64_t threads : {1, 2, 7})
        EXPECT_EQ(outputs_of(spec, prepared, threads), once)
            << op.name << " " << spec.name << " on " << threads << " threads";
    }
  }
}

/// Everything fp32 but what the input is kept in; gain and dy are 1.
CaseSpec kept_in(const std::string& format, Direction direction, const std::string& x) {
  CaseSpec spec;
  spec.op = find_op("recompute");
  spec.direction = direction;
  spec.attributes = spec.op->default_attributes;
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == "stored_format") {
      EXPECT_TRUE(a.set(spec.attributes, format));
    }
  spec.sizes[0] = 4096;
  spec.sizes[1] = 1;
  spec.inputs = {{"x", parse_input(x)},
                 {"gain", parse_input("constant(value=1)")},
                 {"dy", parse_input("constant(value=1)")}};
  return spec;
}

const Tensor& tensor(const Prepared& p, std::string_view name) {
  return p.tensors.find(name)->second;
}

TEST(Recompute, AFormatThatHoldsTheInputGivesTheSameBits) {
  for (const std::string stored : {"bf16", "fp16"}) {
    const auto run = [&](const std::string& kept) {
      CaseSpec spec = kept_in(kept, Direction::backward_full, "normal(sigma=2)");
      spec.precision = precision_named(stored + ":fp32:" + stored).value();
      spec.inputs.back().second = parse_input("normal");
      Prepared p = prepare(spec);
      spec.op->run(p.call);
      return p;
    };
    const Prepared as_it_is = run(stored), wider = run("fp32"), widest = run("fp64");
    for (const std::string_view name : {"dx", "dgain"}) {
      EXPECT_EQ(hash_of(tensor(as_it_is, name)), hash_of(tensor(wider, name)));
      EXPECT_EQ(hash_of(tensor(as_it_is, name)), hash_of(tensor(widest, name)));
    }
    // and those of GELU's own backward pass, which keeps its input
    CaseSpec direct;
    direct.op = find_op("gelu");
    direct.direction = Direction::backward_local;
    direct.attributes = direct.op->default_attributes;
    direct.precision = precision_named(stored + ":fp32:" + stored).value();
    direct.sizes[0] = 4096;
    Prepared p = prepare(direct, {{"x", tensor(as_it_is, "x")}, {"dy", tensor(as_it_is, "dy")}});
    direct.op->run(p.call);
    for (std::int64_t i = 0; i < 4096; ++i)
      ASSERT_EQ(tensor(p, "dx").at(i), tensor(as_it_is, "dx").at(i)) << i;
  }
}

/// gelu'(x), certified.
double slope_at(double x) {
  const CaseSpec spec = kept_in("fp64", Direction::backward_local, "normal");
  CaseSpec one = spec;
  one.precision = precision_named("fp64").value();
  one.sizes[0] = 1;
  Tensor at(fp64, {1, 1});
  at.view().set(0, x);
  Tensors given;
  given.emplace("kept", std::move(at));
  Prepared p = prepare(one, std::move(given));
  ReferenceArrays exact(p.call.backward.size());
  one.op->reference_dd(p.call, exact);
  return exact[recompute::backward::dx].exact[0].high;
}

/// Lipschitz constants of bounds/README.md 7: |gelu'(x') - gelu'(x)| <= 0.3312973 u_s (1 + 2 u_s) +
/// 0.8 eta_s for x' = x rounded; and, of the running bound, which adds the errors of Phi and of x
/// phi, |d Phi| + |d (x phi)| <= phi (1 + 1 + x^2) |x' - x|, at the point of the segment where it
/// is largest.
void check_rounded_input(const std::string& stored, const std::string& x) {
  const Format f = format_named(stored).value();
  const double closed = 0.3312973 * f.unit_roundoff() * (1 + 2 * f.unit_roundoff()) + 0.8 * f.eta();
  const CaseSpec full = kept_in(stored, Direction::backward_full, x);
  const CaseSpec local = kept_in(stored, Direction::backward_local, x);
  Prepared whole = prepare(full), part = prepare(local);
  const Contract own = own_host_provider()->contract(*full.op, {recompute::erfc_form});
  const BoundArrays end_to_end = bounds_of(*full.op, whole.call, own);
  const BoundArrays given = bounds_of(*local.op, part.call, own);
  double largest = 0;
  for (std::int64_t i = 0; i < 4096; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const double from = tensor(whole, "x").at(i), to = round_to(f, from), r = std::fabs(to - from);
    const double change = std::fabs(slope_at(to) - slope_at(from));
    const double radius = end_to_end[recompute::backward::dx].radius[k];
    const double rest = given[recompute::backward::dx].radius[k];
    EXPECT_LE(change, closed) << from;
    EXPECT_LE(change, radius) << from;
    const double near = std::max(0.0, std::fabs(to) - r), far = std::fabs(to) + r;
    const double density = std::exp(-near * near / 2) * 0.3989422804014327;
    EXPECT_LE(radius - rest, r * density * (2 + far * far) * (1 + 0x1p-20)) << from;
    largest = std::max(largest, change / closed);
  }
  testing::Test::RecordProperty("largest_change_over_closed_form_" + stored,
                                std::to_string(largest));
  EXPECT_GT(largest, 0.5) << "inputs that never come near the closed form say little";
}

TEST(Recompute, ARoundedInputStaysWithinTheLipschitzBounds) {
  check_rounded_input("bf16", "uniform(low=-4, high=4)");
  check_rounded_input("fp16", "uniform(low=-4, high=4)");
  check_rounded_input("e4m3", "uniform(low=-4, high=4)");
}

}  // namespace
}  // namespace opbound
