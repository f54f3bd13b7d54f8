// What an audit is made of: samples and their odds, cuts that are the whole's bits, products by
// random signs, memory that is compared.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "distributed/trace/call_judge.hpp"
#include "distributed/trace/gradient_check.hpp"
#include "distributed/trace/product_check.hpp"
#include "distributed/trace/sample.hpp"
#include "distributed/trace/shadow.hpp"
#include "distributed/train/trainer.hpp"
#include "ops/hash.hpp"
#include "tests/planted_observer.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {
namespace {

// ---- samples

TEST(Sample, HoldsDifferentPlacesInOrder) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto places = sampled(50, 20, seed);
    ASSERT_EQ(places.size(), 20U);
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_TRUE(places[i] >= 0 && places[i] < 50);
      EXPECT_TRUE(i == 0 || places[i] > places[i - 1]);
    }
  }
  EXPECT_EQ(sampled(3, 8, 1), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_TRUE(sampled(0, 8, 1).empty());
}

/// Of all sets of so many places, the share that holds one of the first `faulty`.
double counted(int all, int faulty, int count) {
  int sets = 0, seeing = 0;
  for (unsigned set = 0; set < 1U << all; ++set) {
    if (__builtin_popcount(set) != count) continue;
    ++sets;
    seeing += (set & ((1U << faulty) - 1)) != 0 ? 1 : 0;
  }
  return static_cast<double>(seeing) / sets;
}

TEST(Sample, TheOddsAreThoseOfCountingAllSets) {
  for (int all = 1; all <= 12; ++all)
    for (int faulty = 0; faulty <= all; ++faulty)
      for (int count = 0; count <= all; ++count) {
        const double p = detection_probability(all, faulty, count);
        const double share = static_cast<double>(faulty) / all;
        // products of up to 12 factors, each of two roundings
        constexpr double rounding = 2 * 12 * 2 * 0x1p-53;
        EXPECT_LE(std::fabs(p - counted(all, faulty, count)), rounding);
        EXPECT_GE(p, 1 - std::pow(1 - share, count) - rounding) << "which needs no `all`";
      }
}

/// Is k of n trials, each of probability p, less than 5 standard errors from the mean? One honest
/// test in 1.7 million is not.
void expect_frequency(double k, double n, double p) {
  EXPECT_LE(std::fabs(k - n * p), 5 * std::sqrt(n * p * (1 - p))) << k << " of " << n << ", " << p;
}

TEST(Sample, EverySetIsAsLikelyAsAnother) {
  std::map<std::vector<std::int64_t>, int> seen;
  constexpr int seeds = 20000;
  for (int seed = 0; seed < seeds; ++seed) ++seen[sampled(6, 3, element_hash(seed, 1))];
  EXPECT_EQ(seen.size(), 20U);
  for (const auto& [set, times] : seen) expect_frequency(times, seeds, 1.0 / 20);
}

// ---- a planted fault is found as often as is stated

TEST(CallJudge, AFaultInAShareOfElementsIsFoundAsOftenAsStated) {
  train::Step step;
  CaseSpec& spec = step.spec;
  spec.op = find_op("gelu");
  spec.attributes = spec.op->default_attributes;
  spec.precision = {fp32, fp32, fp32};
  constexpr std::int64_t n = 200, faulty = 20;
  spec.sizes[0] = n;
  Tensor x(fp32, {n}), y(fp32, {n});
  for (std::int64_t i = 0; i < n; ++i) x.set(i, static_cast<double>(i % 17) / 5 + 0.1);
  Call call;
  call.attributes = spec.attributes;
  call.sizes = spec.sizes;
  call.forward = {x.view(), y.view()};
  spec.op->run(call);
  for (const std::int64_t i : sampled(n, faulty, 99)) y.set(i, y.at(i) * 1.01);
  const auto own = own_host_provider();
  Share share;
  share.elements = 12;
  constexpr int trials = 600;
  int found = 0;
  for (int t = 0; t < trials; ++t) {
    PastCall past{{}, &step, call, own.get(), 0, element_hash(t, 5)};
    const CallResult result = judge_call(past, share);
    ASSERT_EQ(result.records.size(), 1U);
    EXPECT_EQ(result.records[0].counts.checked, 12U);
    EXPECT_EQ(result.records[0].blocks, (BlockCounts{n, 12}));
    found += result.findings.empty() ? 0 : 1;
  }
  expect_frequency(found, trials, detection_probability(n, faulty, 12));
}

// ---- cuts

train::TrainingSpec tiny(const std::string& policy) {
  train::TrainingSpec s = tiny_training(policy);
  s.model.layers = 1;
  s.steps = 1;
  s.micro_batches = 1;
  return s;
}

/// The kernel's outputs of a cut are the bits that the whole call has there.
void expect_same_bits(const Cut& cut, const std::vector<std::string_view>& outputs) {
  const Op& op = *cut.spec.op;
  const auto& tensors = op.pass(cut.call.direction).tensors;
  Call again = cut.call;
  auto& views = again.direction == Direction::forward ? again.forward : again.backward;
  std::vector<Tensor> written(views.size());
  for (std::size_t t = 0; t < views.size(); ++t) {
    if (!tensors[t].is_written() || views[t].data == nullptr) continue;
    written[t] = Tensor(views[t].element, Shape(views[t].size, views[t].size + views[t].rank));
    views[t] = written[t].view();
  }
  op.run(again);
  for (const std::string_view name : outputs) {
    if (!op.has_tensor(cut.call.attributes, name)) continue;
    const auto t = static_cast<std::size_t>(tensor_of(cut.spec, name));
    for (std::int64_t i = 0; i < views[t].count(); ++i)
      ASSERT_EQ(canonical_bits(views[t], i), canonical_bits(cut.call.judged()[t], i))
          << op.name << " " << name << " " << name_of(cut.call.direction) << ", element " << i;
  }
}

/// Cuts every call of a run.
class CutsAll final : public train::Observer {
 public:
  std::set<std::string> seen;
  bool sees_calls(std::int64_t, std::int64_t) override { return true; }
  void after_call(const train::CallPlace& place, const train::Step& step,
                  const Call& call) override {
    if (place.phase == train::Phase::update) return;  // its inputs are gone
    CaseSpec spec = step.spec;
    spec.attributes = call.attributes;
    for (const Family& f : families_of(spec)) {
      const std::int64_t count = allowed_blocks(spec, f, 3), all = blocks_of(spec, f);
      for (const Cut& cut : cuts_of(spec, call, f, sampled(all, count, place.index)))
        expect_same_bits(cut, f.outputs);
      seen.insert(std::string(spec.op->name) + " " + std::string(f.along));
    }
    if (spec.op->name != "matmul") return;
    for (const NamedProduct& p : products_of(*spec.op, call)) {
      EXPECT_TRUE(check_product(p.product, place.index).failing.empty());
      if (p.output == "dbias") continue;
      for (const std::int64_t e : sampled(p.product.d.count(), 3, place.index))
        expect_same_bits(
            product_element(spec, call, p.product.a, p.product.b, p.product.d, p.product.bias, e),
            {"d"});
    }
  }
};

TEST(Cut, TheKernelsOutputsAreTheWholesBits) {
  CutsAll cuts;
  for (int choice = 0; choice < 4; ++choice)
    for (const char* policy : {"fp32", "bf16", "fp8"}) {
      train::TrainingSpec s = tiny(policy);
      if (choice == 1) s.model.positions = train::Positions::rotary;
      if (choice == 2) s.model.norm = train::Norm::rms_norm;
      if (choice == 2) s.model.biases = false;
      if (choice == 3) s.model.activation = train::Activation::swiglu;
      train::TrainOptions how;
      how.observers = {&cuts};
      train::train(s, how);
    }
  const std::set<std::string> all{
      "attention keys",   "attention queries", "cast n",     "cross_entropy rows",
      "embedding tokens", "embedding width",   "gelu n",     "layer_norm n",
      "layer_norm rows",  "residual n",        "rms_norm n", "rms_norm rows",
      "rope tokens",      "swiglu n"};
  EXPECT_EQ(cuts.seen, all);
}

// ---- products

struct RandomProduct {
  Tensor a, b, d;
  Product product;

  RandomProduct(const Format& f, std::int64_t m, std::int64_t n, std::int64_t k)
      : a(f, {m, k}), b(f, {n, k}), d(f, {m, n}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(m + n + k));
    std::normal_distribution<double> normal;
    for (Tensor* t : {&a, &b})
      for (std::int64_t i = 0; i < t->count(); ++i) t->set(i, normal(random));
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t t = 0; t < k; ++t)
          sum += static_cast<float>(a.at(i * k + t)) * static_cast<float>(b.at(j * k + t));
        d.set(i * n + j, static_cast<double>(sum));
      }
    TensorView column = b.view();  // b is read transposed
    std::swap(column.size[0], column.size[1]);
    std::swap(column.stride[0], column.stride[1]);
    product = {a.view(), column, d.view(), {}, fp32};
  }
};

TEST(ProductCheck, CorrectProductsPass) {
  for (const Format& f : {fp32, bf16, fp16, e4m3, fp64})
    for (const std::int64_t k : {1, 7, 300}) {
      const RandomProduct p(f, 33, 65, k);
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const ProductRows rows = check_product(p.product, seed);
        EXPECT_EQ(rows.judged, 33);
        EXPECT_TRUE(rows.failing.empty()) << name_of(f) << " " << k;
      }
    }
}

TEST(ProductCheck, AnElementFarBeyondTheSlackIsFoundByEveryVector) {
  RandomProduct p(bf16, 8, 40, 64);
  p.d.set(3 * 40 + 17, p.d.at(3 * 40 + 17) + 1000);
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    EXPECT_EQ(check_product(p.product, seed).failing, std::vector<std::int64_t>{3});
}

// Two errors of one size cancel along half of the vectors, which is the worst that can be.
TEST(ProductCheck, ErrorsThatCancelAreMissedOnceIn256) {
  RandomProduct p(fp32, 1, 40, 64);
  p.d.set(4, p.d.at(4) + 64);
  p.d.set(31, p.d.at(31) + 64);
  int missed = 0;
  constexpr int trials = 20000;
  for (int t = 0; t < trials; ++t)
    missed += check_product(p.product, element_hash(t, 3)).failing.empty() ? 1 : 0;
  expect_frequency(missed, trials, 1.0 / 256);
}

TEST(ProductCheck, TwoRowsThatWereExchangedFail) {
  RandomProduct p(fp32, 8, 40, 64);
  for (std::int64_t j = 0; j < 40; ++j) {
    const double x = p.d.at(40 + j);
    p.d.set(40 + j, p.d.at(80 + j));
    p.d.set(80 + j, x);
  }
  EXPECT_EQ(check_product(p.product, 1).failing, (std::vector<std::int64_t>{1, 2}));
}

TEST(ProductCheck, MatrixUnitsAndScalesAreNotItsBusiness) {
  const Op& op = *find_op("matmul");
  Call call;
  call.attributes = op.default_attributes;
  call.variant = op.variant_named("hopper");
  EXPECT_TRUE(products_of(op, call).empty());
}

// ---- memory

TEST(Intervals, AreJoinedAndWalked) {
  Intervals in;
  in.add(10, 20);
  in.add(30, 40);
  in.add(20, 25);
  in.add(5, 5);
  EXPECT_EQ(in.ends(), (std::map<std::int64_t, std::int64_t>{{25, 10}, {40, 30}}));
  std::string text;
  in.walk(
      0, 50, [&](auto a, auto b) { text += "+" + std::to_string(a) + ":" + std::to_string(b); },
      [&](auto a, auto b) { text += "-" + std::to_string(a) + ":" + std::to_string(b); });
  EXPECT_EQ(text, "-0:10+10:25-25:30+30:40-40:50");
  in.add(24, 31);
  EXPECT_EQ(in.ends(), (std::map<std::int64_t, std::int64_t>{{40, 10}}));
}

TEST(Shadow, ComparesWhatIsKnownAndTakesWhatIsNot) {
  const auto machine = train::host_machine();
  Tensor memory(fp32, {4, 6});
  for (std::int64_t i = 0; i < 24; ++i) memory.set(i, static_cast<double>(i));
  TensorView part = memory.view();  // columns 2 and 3
  part.size[1] = 2;
  part.data = memory.bytes().data() + 2 * 4;
  Shadow shadow;
  shadow.wrote(*machine, part, 2);
  Shadow::Runs news;
  EXPECT_FALSE(shadow.read(*machine, memory.view(), 0, &news));
  EXPECT_EQ(news.size(), 5U) << "before, between and behind the four pairs";
  memory.set(8, -1);
  const auto difference = shadow.read(*machine, part, 2);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->index, 8);
  EXPECT_EQ(difference->got, -1);
  EXPECT_EQ(difference->expected, 8);
  EXPECT_EQ(difference->count, 1U);
  EXPECT_FALSE(shadow.read(*machine, part, 2)) << "what is there is what later calls read";
  TensorView turned = part;  // the same elements in another order
  std::swap(turned.size[0], turned.size[1]);
  std::swap(turned.stride[0], turned.stride[1]);
  EXPECT_FALSE(shadow.read(*machine, turned, 2));
  EXPECT_EQ(shadow.here(turned, 2).at(1), -1);
}

// ---- sums of gradients

TEST(GradientCheck, AMeanOfAnyOrderFitsAndAnotherDoesNot) {
  train::Policy policy;
  for (const Format& wire : {fp32, bf16}) {
    policy.reduction = policy.gradient = wire;
    const MeanBound bound(policy, 4);
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    SignSums mean{}, terms{}, wrong{};
    constexpr std::int64_t n = 1000;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      const std::uint64_t signs = element_hash(i, 1);
      const auto add = [&](SignSums& to, double x) {
        for (std::size_t v = 0; v < quick_check_vectors; ++v)
          to[v] += (signs >> v & 1) != 0 ? -x : x;
        to[quick_check_vectors] += std::fabs(x);
      };
      for (int m = 0; m < 4; ++m) {
        const double g = round_to(wire, normal(random));
        sum = round_to(wire, round_to(fp32, sum + g));
        add(terms, g);
      }
      add(mean, round_to(wire, sum / 4));
      add(wrong, round_to(wire, sum / 3));
    }
    EXPECT_TRUE(fit_of(mean, terms, n, 4, bound).fits);
    EXPECT_EQ(fit_of(wrong, terms, n, 4, bound).fits, wire == bf16)
        << "a wrong divisor is seen among 1000 elements in fp32; bf16's own rounding is wider";
  }
}

}  // namespace
}  // namespace opbound::trace
