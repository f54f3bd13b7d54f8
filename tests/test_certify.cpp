// From a call to its verdicts: rungs, blocks, indices, and end to end with kernels that keep the
// contract and inputs chosen against them.
#include <gtest/gtest.h>
#include <pthread.h>

#include "tests/attack_kernels.hpp"

namespace opbound {
namespace {

using attack::case_for;
using attack::Random;

/// A prepared case with adversarial inputs, run by our own kernel.
Prepared run_own(const CaseSpec& spec, Random& random) {
  Prepared p = prepare(spec, attack::adversarial_inputs(spec, random));
  spec.op->run(p.call);
  return p;
}

const Contract own{};
Contract any_order(int variant) {
  return {{variant}, Contract::Order::any, cuda_function_errors, {}};
}

std::vector<OutputCheck> check(const CaseSpec& spec, const Prepared& p, const Contract& contract,
                               int most_bits = 4096) {
  return certify(*spec.op, p.call, bounds_of(*spec.op, p.call, contract), most_bits);
}

/// How an op's variants are reached: its attribute and what it is for each of them.
struct Choice {
  int variant;
  AttributeBytes attributes;
};
std::vector<Choice> choices_of(const Op& op) {
  std::vector<Choice> choices;
  const AttributeSpec& attribute = op.attributes.front();
  for (const AttributeValue& value : std::vector<AttributeValue>{false, true, "none", "tanh"}) {
    AttributeBytes bytes = op.default_attributes;
    if (!attribute.set(bytes, value)) continue;
    for (int v = 0; v < static_cast<int>(op.variants.size()); ++v)
      if (op.allows(bytes, v)) choices.push_back({v, bytes});
  }
  return choices;
}

// ---- rungs, blocks and indices

/// A few cases that between them need both rungs.
std::vector<CaseSpec> cases_of_both_rungs() {
  std::vector<CaseSpec> cases;
  for (const auto precision : {"fp32", "bf16:fp32:bf16", "fp64"})
    for (const auto direction :
         {Direction::forward, Direction::backward_local, Direction::backward_full}) {
      cases.push_back(case_for("gelu", direction, precision, {70}));
      cases.push_back(case_for("softmax", direction, precision, {5, 12}));
    }
  return cases;
}

/// Double-double where it will do, intervals where they are needed: the verdicts are those of
/// intervals alone.
TEST(Certify, AgreesWithIntervalsAlone) {
  Random random(21);
  std::uint64_t dd = 0, mpfr = 0;
  for (const CaseSpec& spec : cases_of_both_rungs()) {
    const Prepared p = run_own(spec, random);
    const BoundArrays bounds = bounds_of(*spec.op, p.call, own);
    const auto views = p.call.judged();
    ReferenceArrays reference(views.size());
    spec.op->reference_mpfr(p.call, 2048, {}, reference);
    for (const OutputCheck& c : certify(*spec.op, p.call, bounds)) {
      const auto t = static_cast<std::size_t>(c.tensor);
      const Format f = format_of(views[t].element);
      ElementCounts counts;
      for (std::int64_t i = 0; i < views[t].count(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        const Verdict v = judge(reference[t].exact[k], bounds[t].radius[k], reference[t].gauge[k],
                                views[t].at(i), {f, store_rounds(p.call.compute, f)})
                              .verdict;
        ++(v == Verdict::within    ? counts.within
           : v == Verdict::exceeds ? counts.exceeds
           : v == Verdict::vacuous ? counts.vacuous
                                   : counts.undecided);
      }
      SCOPED_TRACE(std::string(spec.op->name) + " " + name_of(spec.precision) + " " +
                   std::string(name_of(spec.direction)));
      EXPECT_EQ(c.counts.within, counts.within);
      EXPECT_EQ(c.counts.exceeds, counts.exceeds);
      EXPECT_EQ(c.counts.vacuous, counts.vacuous);
      EXPECT_EQ(c.counts.undecided, counts.undecided);
      EXPECT_EQ(c.rungs.dd + c.rungs.mpfr + c.counts.undecided, c.counts.checked);
      dd += c.rungs.dd;
      mpfr += c.rungs.mpfr;
    }
  }
  EXPECT_GT(mpfr, 20);
  EXPECT_GT(dd, 3 * mpfr);
}

/// What the first rung decides stays decided when its block is run again for another element: at
/// 128 bits y - exp(-1e38) is known less well than in double-double.
TEST(Certify, SharperRungsDoNotBlurWhatIsDecided) {
  Random random(22);
  for (int row = 0; row < 40; ++row) {
    CaseSpec spec = case_for("softmax", Direction::backward_local, "fp32", {1, 30});
    ASSERT_TRUE(spec.op->attributes[0].set(spec.attributes, true));
    spec.variant = spec.op->default_variant(spec.attributes);
    Tensors inputs = attack::adversarial_inputs(spec, random);
    for (std::int64_t j = 0; j < 30; ++j)
      inputs.find("x")->second.set(j, j == 0 ? 0 : -1e38 * attack::share(random));
    Prepared p = prepare(spec, std::move(inputs));
    spec.op->run(p.call);
    for (const OutputCheck& c : check(spec, p, own)) {
      EXPECT_EQ(c.counts.undecided, 0);
    }
  }
}

void expect_same(const OutputCheck& a, const OutputCheck& b) {
  EXPECT_EQ(a.counts.within, b.counts.within);
  EXPECT_EQ(a.counts.vacuous, b.counts.vacuous);
  EXPECT_EQ(a.ratio, b.ratio);
  EXPECT_EQ(a.acceptable_mean, b.acceptable_mean);
  EXPECT_EQ(a.error_ulp_mean, b.error_ulp_mean);
  EXPECT_EQ(a.error_ulp_max, b.error_ulp_max);
  EXPECT_EQ(a.bias_ulp, b.bias_ulp);
  EXPECT_EQ(a.bias_z, b.bias_z);
  EXPECT_EQ(a.worst.index, b.worst.index);
  EXPECT_EQ(a.worst_exact.high, b.worst_exact.high);
  EXPECT_EQ(a.rungs.mpfr, b.rungs.mpfr);
}

/// Twelve runs of elements, taken by threads in whatever order, then all on one core.
TEST(Certify, GivesTheSameBitsHoweverThreadsAreScheduled) {
  Random random(23);
  const CaseSpec spec = case_for("softmax", Direction::forward, "fp32", {1500, 33});
  const Prepared p = run_own(spec, random);
  const auto all_cores = check(spec, p, own);
  cpu_set_t before, one;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
  const auto one_core = check(spec, p, own);
  pthread_setaffinity_np(pthread_self(), sizeof before, &before);
  ASSERT_EQ(all_cores.size(), one_core.size());
  for (std::size_t i = 0; i < one_core.size(); ++i) expect_same(all_cores[i], one_core[i]);
}

/// Each output with one element moved by what no bound allows.
TEST(Certify, FindsACorruptedElementAtItsPlace) {
  Random random(24);
  for (const auto name : {"gelu", "softmax"}) {
    for (const auto direction :
         {Direction::forward, Direction::backward_local, Direction::backward_full}) {
      for (const auto precision : {"fp32", "bf16:fp32:bf16", "fp16"}) {
        const bool is_row = name == std::string_view("softmax");
        const CaseSpec spec = case_for(name, direction, precision, {is_row ? 40 : 6000, 150});
        Prepared p = prepare(spec);
        spec.op->run(p.call);
        for (int attempt = 0; attempt < 3; ++attempt) {
          TensorView out = p.call.judged().back();
          const auto place =
              static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(out.count()));
          const double right = out.at(place);
          out.set(place, 1.5 * right + 0.25);
          const auto checks = check(spec, p, own);
          EXPECT_EQ(checks.back().counts.exceeds, 1) << name << " " << precision;
          EXPECT_EQ(checks.back().worst.index, static_cast<std::uint64_t>(place));
          EXPECT_EQ(verdict_of(checks.back().counts), Verdict::exceeds);
          out.set(place, right);
        }
      }
    }
  }
}

TEST(Certify, TakesEmptyTensors) {
  for (const auto direction :
       {Direction::forward, Direction::backward_local, Direction::backward_full}) {
    for (const Sizes& sizes : {Sizes{0, 5}, Sizes{3, 0}, Sizes{0, 0}}) {
      for (const auto name : {"gelu", "softmax"}) {
        if (name == std::string_view("gelu") && sizes[0] != 0) continue;
        const CaseSpec spec = case_for(name, direction, "fp32", sizes);
        Prepared p = prepare(spec);
        spec.op->run(p.call);
        for (const Contract& contract : {own, any_order(0)})
          for (const OutputCheck& c : check(spec, p, contract)) {
            EXPECT_EQ(c.counts.checked, 0);
            EXPECT_EQ(verdict_of(c.counts), Verdict::within);
          }
      }
    }
  }
}

/// A reference that may not be sharpened decides nothing here: x^3 is beyond every double.
TEST(Certify, SaysUndecidedWhereItCannotTell) {
  CaseSpec spec = case_for("gelu", Direction::forward, "fp64", {300});
  ASSERT_TRUE(spec.op->attributes[0].set(spec.attributes, std::string("tanh")));
  spec.variant = spec.op->default_variant(spec.attributes);
  Tensors inputs;
  Tensor& x = inputs.emplace("x", Tensor(fp64, {300})).first->second;
  x.fill(1e300);
  Prepared p = prepare(spec, std::move(inputs));
  spec.op->run(p.call);
  const OutputCheck none = check(spec, p, own, 64).front();
  EXPECT_EQ(none.counts.undecided, 300);
  EXPECT_EQ(none.blocks.certified, 0);
  EXPECT_EQ(verdict_of(none.counts), Verdict::undecided);
  const OutputCheck all = check(spec, p, own).front();
  EXPECT_EQ(all.counts.within, 300);
  EXPECT_EQ(all.rungs.mpfr, 300);
  EXPECT_EQ(all.blocks.certified, all.blocks.total);
}

/// NaN and infinities are classes that the kernels share with the definitions.
TEST(Certify, AgreesOnNonfiniteInputs) {
  const double values[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 0, 1};
  Random random(25);
  for (const auto precision : {"fp32", "bf16", "fp16", "fp64", "bf16:fp32:e5m2"}) {
    for (const auto name : {"gelu", "softmax"}) {
      for (const Choice& choice : choices_of(*find_op(name))) {
        for (const auto direction : {Direction::forward, Direction::backward_full}) {
          CaseSpec spec = case_for(name, direction, precision, {60, 3});
          spec.attributes = choice.attributes;
          spec.variant = choice.variant;
          Tensors inputs = attack::adversarial_inputs(spec, random);
          Tensor& x = inputs.find("x")->second;
          for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, attack::pick(random, values));
          Prepared p = prepare(spec, std::move(inputs));
          spec.op->run(p.call);
          for (const OutputCheck& c : check(spec, p, Contract{.variants = {choice.variant}})) {
            EXPECT_EQ(c.counts.exceeds, 0)
                << name << " " << precision << " " << choice.variant << " " << name_of(direction)
                << " got " << c.worst.got << " exact " << c.worst.low << " bound " << c.worst.bound
                << " index " << c.worst.index << " x "
                << x.at(static_cast<std::int64_t>(c.worst.index));
          }
        }
      }
    }
  }
}

TEST(Certify, FailsWhatWasNeverWritten) {
  for (const auto precision : {"fp32", "bf16:fp32:bf16", "fp32:fp32:e4m3"}) {
    const CaseSpec spec = case_for("softmax", Direction::forward, precision, {5, 7});
    const Prepared p = prepare(spec);
    const OutputCheck c = check(spec, p, own).front();
    EXPECT_EQ(c.counts.exceeds, 35);
    EXPECT_EQ(c.nonfinite_mismatch, 35);
  }
}

/// A kernel that adds along a revealed tree is within the bound of that tree.
TEST(Certify, JudgesAKernelByItsTree) {
  Random random(28);
  attack::nudge = {cuda_function_errors, attack::Nudge::Way::random, Random(29)};
  for (int i = 0; i < 60; ++i) {
    const std::int64_t n = attack::whole(random, 1, 90);
    const SumTree tree = attack::random_tree(random, n, attack::chance(random, 2) ? 2 : 5);
    const auto precision = i % 2 == 0 ? "fp32" : "bf16";
    const auto direction = static_cast<Direction>(i % 3);
    const CaseSpec spec = case_for("softmax", direction, precision, {4, n});
    Prepared p = prepare(spec, attack::adversarial_inputs(spec, random));
    attack::run_foreign(*spec.op, p.call, attack::AlongTree{&tree, &random});
    const Contract contract{{0}, Contract::Order::tree, cuda_function_errors, tree};
    for (const OutputCheck& c : check(spec, p, contract)) {
      EXPECT_EQ(c.counts.exceeds, 0);
    }
  }
}

/// The saved y is stored in fp16: bf16's small values are rounded, its large ones overflow,
/// although fp16 has more digits.
TEST(Certify, CountsTheStoreOfANarrowerRange) {
  Random random(26);
  attack::nudge = {cuda_function_errors, attack::Nudge::Way::random, Random(27)};
  for (int row = 0; row < 200; ++row) {
    const CaseSpec spec = case_for("softmax", Direction::backward_full, "fp16:bf16:fp16", {20, 4});
    Tensors inputs = attack::adversarial_inputs(spec, random);
    Tensor &x = inputs.find("x")->second, &dy = inputs.find("dy")->second;
    for (std::int64_t j = 0; j < x.count(); ++j) {
      x.set(j, j % 4 == 0 ? 0 : -12 - 4 * attack::share(random));
      dy.set(j, j % 4 == 0 ? 0 : 4000 * attack::share(random));
    }
    Prepared p = prepare(spec, std::move(inputs));
    attack::run_foreign(*spec.op, p.call, attack::RandomTreeTeam{&random});
    for (const OutputCheck& c : check(spec, p, any_order(spec.variant)))
      ASSERT_EQ(c.counts.exceeds, 0) << std::hexfloat << row << " got " << c.worst.got << " exact "
                                     << c.worst.low << " bound " << c.worst.bound;
  }
}

// ---- end to end

struct Totals {
  ElementCounts counts;
  double ratio = 0;
};

/// Runs every op, variant, direction and precision; `run` computes the outputs that `contract`
/// judges.
template <class Run, class ContractOf>
void end_to_end(std::string_view name, std::int64_t elements, std::uint64_t seed, Run run,
                ContractOf contract_of) {
  Random random(seed);
  const Op& op = *find_op(name);
  const std::vector<std::string_view> precisions{
      "fp32",           "bf16:fp32:bf16", "fp16:fp32:fp16", "bf16",
      "fp16",           "fp64",           "fp32:bf16:fp16", "fp16:bf16:fp16",
      "bf16:fp16:bf16", "fp32:fp32:e4m3", "bf16:fp32:e5m2", "fp64:fp16:fp32"};
  const auto choices = choices_of(op);
  const std::int64_t each =
      elements / static_cast<std::int64_t>(precisions.size() * choices.size() * 3) + 1;
  for (const auto precision : precisions) {
    Totals totals;
    for (const Choice& choice : choices) {
      for (const auto direction :
           {Direction::forward, Direction::backward_local, Direction::backward_full}) {
        const bool is_row = name == "softmax";
        const std::int64_t n = is_row ? attack::whole(random, 1, 150) : each;
        CaseSpec spec = case_for(name, direction, precision, {is_row ? each / n + 1 : n, n});
        spec.attributes = choice.attributes;
        spec.variant = choice.variant;
        Prepared p = prepare(spec, attack::adversarial_inputs(spec, random));
        run(op, p.call, random);
        for (const OutputCheck& c : check(spec, p, contract_of(choice.variant))) {
          totals.counts.checked += c.counts.checked;
          totals.counts.vacuous += c.counts.vacuous;
          if (c.counts.exceeds + c.counts.undecided == 0)
            totals.ratio = std::max(totals.ratio, std::isfinite(c.ratio) ? c.ratio : 0);
          EXPECT_EQ(c.counts.exceeds, 0)
              << std::hexfloat << precision << " "
              << op.variants[static_cast<std::size_t>(choice.variant)].name << " "
              << name_of(direction) << " element " << c.worst.index << " of " << c.counts.checked
              << " n " << n << " got " << c.worst.got << " exact " << c.worst.low << " bound "
              << c.worst.bound << " ratio " << c.ratio;
          EXPECT_EQ(c.counts.undecided, 0) << precision << " " << name_of(direction);
        }
      }
    }
    testing::Test::RecordProperty("largest_ratio_" + std::string(precision),
                                  std::to_string(totals.ratio));
    testing::Test::RecordProperty(
        "vacuous_" + std::string(precision),
        std::to_string(totals.counts.vacuous) + " of " + std::to_string(totals.counts.checked));
  }
}

void own_end_to_end(std::string_view name, std::int64_t elements, std::uint64_t seed) {
  end_to_end(
      name, elements, seed, [](const Op& op, const Call& c, Random&) { op.run(c); },
      [](int variant) { return Contract{.variants = {variant}}; });
}

void foreign_end_to_end(std::string_view name, std::int64_t elements, std::uint64_t seed) {
  attack::nudge.errors = cuda_function_errors;
  const auto run = [](const Op& op, const Call& c, Random& random) {
    attack::nudge.way = static_cast<attack::Nudge::Way>(attack::whole(random, 1, 3));
    attack::run_foreign(op, c, attack::RandomTreeTeam{&random});
  };
  end_to_end(name, elements, seed, run, any_order);
}

TEST(EndToEnd, OwnGelu) { own_end_to_end("gelu", 100000, 1); }
TEST(EndToEnd, OwnSoftmax) { own_end_to_end("softmax", 100000, 2); }
TEST(EndToEnd, ForeignGelu) { foreign_end_to_end("gelu", 100000, 3); }
TEST(EndToEnd, ForeignSoftmax) { foreign_end_to_end("softmax", 100000, 4); }
TEST(FullEndToEnd, OwnGelu) { own_end_to_end("gelu", 1000000, 11); }
TEST(FullEndToEnd, OwnSoftmax) { own_end_to_end("softmax", 1000000, 12); }
TEST(FullEndToEnd, ForeignGelu) { foreign_end_to_end("gelu", 1000000, 13); }
TEST(FullEndToEnd, ForeignSoftmax) { foreign_end_to_end("softmax", 1000000, 14); }

}  // namespace
}  // namespace opbound
