// Errors of a run attributed to its calls: what is planted is found where it was planted and as
// large, what is exact has none, and replays agree.
#include <gtest/gtest.h>

#include <cmath>

#include "distributed/trace/attribution_record.hpp"
#include "distributed/trace/logged_spec.hpp"
#include "distributed/train/log.hpp"
#include "reports/error.hpp"
#include "tests/attributed.hpp"

namespace opbound::trace {
namespace {

using namespace train;

/// Changes one output of every call of a part in a layer, once it is done.
class Planted final : public Observer {
 public:
  using Change = std::function<double(std::int64_t element, double value)>;

  Planted(std::string part, int layer, Direction direction, std::string tensor, Change change)
      : part_(std::move(part)),
        layer_(layer),
        direction_(direction),
        tensor_(std::move(tensor)),
        change_(std::move(change)) {}

  void begin(const RunView& run) override { machine_ = &run.machine; }
  bool sees_calls(std::int64_t step, std::int64_t m) override { return step == 1 && m == 1; }
  void after_call(const CallPlace&, const Step& step, const Call& call) override {
    if (step.part != part_ || step.layer != layer_ || call.direction != direction_) return;
    const auto specs = step.spec.op->pass(direction_).tensors;
    for (std::size_t t = 0; t < specs.size(); ++t)
      if (specs[t].name == tensor_) plant(call.judged()[t]);
  }
  double square = 0;  ///< of what was planted

 private:
  void plant(const TensorView& there) {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(there.extent() * bytes_of(there.element)));
    machine_->read(bytes.data(), there.data, static_cast<std::int64_t>(bytes.size()));
    TensorView here = there;
    here.data = bytes.data();
    for (std::int64_t i = 0; i < here.count(); ++i) {
      const double before = here.at(i);
      here.set(i, round_to(format_of(here.element), change_(i, before)));
      square += (here.at(i) - before) * (here.at(i) - before);
    }
    machine_->write(there.data, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }

  Machine* machine_ = nullptr;
  std::string part_;
  int layer_;
  Direction direction_;
  std::string tensor_;
  Change change_;
};

double second_order(const Attribution& a) { return std::abs(a.predicted_exact - a.predicted); }

const ClassContribution& one_of(const Attribution& a, const std::string& part, int layer,
                                Pass pass) {
  for (const ClassContribution& c : a.classes)
    if (c.where.part == part && c.where.layer == layer && c.where.pass == pass) return c;
  throw std::logic_error("no class " + part);
}

TEST(Attribution, OfARunInFp64IsNothing) {
  const Attribution a = attributed(tiny("fp64"));
  EXPECT_EQ(a.measured(), 0);
  EXPECT_EQ(a.predicted, 0);
  for (const ClassContribution& c : a.classes) {
    EXPECT_EQ(c.loss, 0) << c.where.part;
    EXPECT_EQ(c.loss_replayed.value_or(0), 0) << c.where.part;
    EXPECT_EQ(c.gradient, 0.0) << c.where.part;
  }
  ASSERT_TRUE(a.replay && a.replay->gradient);
  EXPECT_EQ(a.replay->gradient->measured, 0);
}

// In fp64 nothing else errs, so the whole difference is the plant's: P2 meets it better than P1
// does, which misses its second order.
TEST(Attribution, FindsAPlantedErrorOfAForwardCall) {
  Planted fault("mlp:gelu", 1, Direction::forward, "y",
                [](std::int64_t i, double y) { return y + (i % 3 == 0 ? 0x1p-7 : 0); });
  const Attribution a = attributed(tiny("fp64"), {&fault});
  EXPECT_GT(fault.square, 0);
  ASSERT_NE(a.measured(), 0);
  for (const ClassContribution& c : a.classes) {
    const bool is_planted = c.where == one_of(a, "mlp:gelu", 1, Pass::forward).where;
    EXPECT_EQ(c.loss != 0, is_planted) << c.where.part << " " << c.where.layer;
    EXPECT_EQ(c.gradient > 0, is_planted) << c.where.part << " " << c.where.layer;
  }
  const ClassContribution& planted = one_of(a, "mlp:gelu", 1, Pass::forward);
  EXPECT_EQ(planted.loss, a.predicted);
  EXPECT_LT(std::abs(a.unattributed()), second_order(a));
  EXPECT_LT(std::abs(a.unattributed()), 0.02 * a.root_of_squares);
  // The replay puts the error back where it was, up to fp64's rounding of the sum.
  EXPECT_LE(std::abs(*planted.loss_replayed - a.measured()), std::ldexp(a.loss, -48));
}

// The gradient of one weight errs by what was planted in it, and by nothing else.
TEST(Attribution, FindsAPlantedErrorOfABackwardCall) {
  Planted fault("mlp:matmul", 0, Direction::backward_local, "dbias",
                [](std::int64_t, double d) { return d + 0x1p-12; });
  const Attribution a = attributed(tiny("fp64"), {&fault});
  EXPECT_EQ(a.measured(), 0) << "the loss is before it";
  ASSERT_TRUE(a.replay && a.replay->gradient);
  const ClassContribution& planted = one_of(a, "mlp:matmul", 0, Pass::backward);
  for (const ClassContribution& c : a.classes)
    EXPECT_EQ(c.gradient > 0, c.where == planted.where) << c.where.part << " " << c.where.layer;
  double square = 0;
  for (const ParameterDeviation& p : a.replay->gradient->parameters) {
    const bool is_bias = p.name == "h.0.mlp.c_fc.bias" || p.name == "h.0.mlp.c_proj.bias";
    EXPECT_EQ(p.measured > 0, is_bias) << p.name;
    EXPECT_EQ(p.measured, p.predicted) << p.name;
    square += p.measured * p.norm * p.measured * p.norm;
  }
  const double got = std::sqrt(square), expected = std::sqrt(fault.square);
  EXPECT_LE(std::abs(got - expected), std::ldexp(expected, -40)) << got;
}

TEST(Attribution, FindsWhatIsPlantedAmongRounding) {
  const Attribution clean = attributed(tiny("bf16"));
  Planted fault("attention", 0, Direction::forward, "o",
                [](std::int64_t, double o) { return o * 1.25; });
  const Attribution a = attributed(tiny("bf16"), {&fault});
  const ClassContribution& planted = one_of(a, "attention", 0, Pass::forward);
  const auto deviations = [](const ClassContribution& c) {
    return c.loss_expected == 0 ? 0 : std::abs(c.loss) / c.loss_expected;
  };
  for (const ClassContribution& c : a.classes) {
    if (c.where == planted.where) continue;
    EXPECT_LT(std::abs(c.loss), std::abs(planted.loss)) << c.where.part << c.where.layer;
    EXPECT_LT(deviations(c), deviations(planted)) << c.where.part << c.where.layer;
  }
  // A normal number is beyond six deviations once in 5e8: the plant is, what rounds is not.
  EXPECT_GT(deviations(planted), 6);
  for (const ClassContribution& c : clean.classes)
    EXPECT_LT(deviations(c), 6) << c.where.part << c.where.layer;
  // Rounding behind it is drawn anew, so the two runs' losses do not differ by its contribution.
  EXPECT_EQ(a.loss_exact, clean.loss_exact) << "the same master weights";
  EXPECT_LE(std::abs(a.unattributed()), 0.02 * a.root_of_squares);
}

/// Changes a value between the call that wrote it and one that reads it.
class Altered final : public Observer {
 public:
  void begin(const RunView& run) override { machine_ = &run.machine; }
  bool sees_calls(std::int64_t step, std::int64_t m) override { return step == 1 && m == 1; }
  void before_call(const CallPlace&, const Step& step, const Call& call) override {
    if (step.part != "mlp:gelu" || step.layer != 1 || call.direction != Direction::forward) return;
    const float zero = 0;
    machine_->write(call.forward[0].data, &zero, sizeof zero);
  }

 private:
  Machine* machine_ = nullptr;
};

TEST(Attribution, SaysWhatWasNotReadAsItWasWritten) {
  Altered fault;
  const Attribution a = attributed(tiny("fp32"), {&fault});
  EXPECT_EQ(a.changed, 2) << "forward and backward read it";
  EXPECT_NE(a.first_changed.find("mlp:gelu of layer 1"), std::string::npos) << a.first_changed;
  EXPECT_EQ(attributed(tiny("fp32")).changed, 0);
}

class Policies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ready, Policies,
                         testing::Values("fp32", "tf32", "bf16", "fp16-scaled", "bf16-mlp32",
                                         "fp32-reproducible"));

/// What issue G asks of an attribution, and what follows from the sum rule.
void expect_agreement(const Attribution& a) {
  EXPECT_NE(a.measured(), 0);
  EXPECT_LE(std::abs(a.unattributed()), 0.02 * a.root_of_squares);
  ASSERT_TRUE(a.replay && a.replay->gradient);
  EXPECT_LE(a.replay->largest_gap, 0.02);
  EXPECT_GE(a.replay->rank_correlation, 0.9);
  double loss = 0, share = 0;
  for (const ClassContribution& c : a.classes) {
    loss += c.loss;
    share += *c.gradient_share;
  }
  EXPECT_EQ(loss, a.predicted);
  // <rest, G' - G> / |G' - G|^2 is at most |rest| / |G' - G| (Cauchy and Schwarz).
  const GradientDeviation& g = *a.replay->gradient;
  EXPECT_LE(std::abs(1 - share), g.unattributed / g.measured + 0x1p-40);
  for (const ParameterDeviation& p : g.parameters) {
    EXPECT_TRUE(p.is_within()) << p.name;
    EXPECT_GT(p.measured, 0) << p.name;
  }
}

TEST_P(Policies, ContributionsAddUpAndReplaysAgree) {
  expect_agreement(attributed(tiny(GetParam())));
}

TEST(Attribution, GoesThroughCheckpointingAndDropout) {
  TrainingSpec s = tiny("bf16");
  s.policy.dropout = 0.1;
  s.policy.checkpointing = Checkpointing::all;
  s.policy.stored_input = fp16;
  expect_agreement(attributed(s));
}

// Products of e4m3 err by 2^-4: what is of second order is no longer small, and is told.
TEST(Attribution, SaysWhereAFirstOrderIsNotEnough) {
  const Attribution a = attributed(tiny("fp8"));
  EXPECT_GT(second_order(a), 0.02 * a.root_of_squares);
  EXPECT_LT(std::abs(a.unattributed()), second_order(a));
}

class FullAttribution : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nano, FullAttribution,
                         testing::Values("fp32", "bf16", "fp16-scaled", "bf16-mlp32", "fp8"));

TEST_P(FullAttribution, NanoAtSeveralSteps) {
  TrainingSpec s = read_training(OPBOUND_SOURCE_DIR "/suites/training/nano.toml");
  s.policy = read_policy(GetParam());
  s.data = OPBOUND_SOURCE_DIR "/suites/training/text.txt";
  AttributionRequest request;
  request.steps = {0, 20, 60};
  request.micro_batch = 0;
  for (const Attribution& a : attribute_run(s, request, {}).parts) {
    EXPECT_LT(std::abs(a.unattributed()), second_order(a)) << a.step;
    if (s.policy.name != "fp8") expect_agreement(a);
  }
}

TEST(Attribution, StepsMeanGradientHasTheErrorOfItsSum) {
  TrainingSpec s = tiny("bf16");
  s.policy.gradient = bf16;
  AttributionRequest request;
  request.steps = {1};
  const AttributedRun run = attribute_run(s, request, {});
  ASSERT_EQ(run.gradients.size(), 1U);
  const StepGradient& g = run.gradients[0];
  EXPECT_EQ(g.micro_batches, 2);
  double largest = 0;
  for (std::size_t p = 0; p < g.of_sum.size(); ++p) {
    EXPECT_TRUE(g.deviation.parameters[p].is_within()) << g.deviation.parameters[p].name;
    EXPECT_LE(g.of_sum[p], g.deviation.parameters[p].largest);
    largest = std::max(largest, g.of_sum[p]);
  }
  EXPECT_GT(largest, 0) << "a sum in bf16 rounds";
  request.micro_batch = 0;
  EXPECT_TRUE(attribute_run(s, request, {}).gradients.empty()) << "one of two is not the step";
}

TEST(Attribution, SameBytesTwice) {
  AttributionRequest request;
  request.steps = {0, 2};
  request.swaps = {read_swap("matmul=fp32"), read_swap("gelu")};
  const TrainingSpec s = tiny("bf16");
  const auto lines = [&] { return attribution_lines(s, attribute_run(s, request, {})); };
  const std::vector<std::string> first = lines();
  EXPECT_EQ(first, lines());
  EXPECT_GT(first.size(), 4U * 30);
}

TEST(Attribution, SwapOfAnOpForItselfChangesNothing) {
  AttributionRequest request;
  request.steps = {1};
  request.with_replay = false;
  request.swaps = {read_swap("matmul=bf16:fp32:bf16"), read_swap("matmul=fp32")};
  TrainingSpec s = tiny("bf16");
  s.policy.loss_scale = LossScale::dynamic;
  s.policy.dropout = 0.1;
  const AttributedRun run = attribute_run(s, request, {});
  ASSERT_EQ(run.swaps.size(), 4U);
  EXPECT_EQ(run.swaps[0].change, 0);
  EXPECT_EQ(run.swaps[0].gradient_change, 0);
  EXPECT_NE(run.swaps[1].change, 0);
  EXPECT_GT(run.swaps[1].gradient_change, 0);
}

TEST(Attribution, RefusesWhatItCannotDo) {
  const TrainingSpec s = tiny("bf16");
  AttributionRequest request;
  request.steps = {3};
  EXPECT_THROW(attribute_run(s, request, {}), InputError) << "steps 0 to 2";
  request.steps = {0};
  request.most_bytes = 1 << 20;
  EXPECT_THROW(attribute_run(s, request, {}), InputError) << "memory";
  request.most_bytes = 1 << 30;
  AgainOptions options;
  options.log = "log";
  options.logged = {StepResult{}};
  options.logged[0].loss = 5.5;
  EXPECT_THROW(attribute_run(s, request, options), InputError) << "another loss";
  options.logged.clear();
  options.data_sha256 = "0";
  EXPECT_THROW(attribute_run(s, request, options), InputError) << "another text";
  EXPECT_THROW(read_swap("geul"), InputError);
  EXPECT_THROW(read_swap("adamw"), InputError);
  request.swaps = {{"gelu", "e4m3"}};
  EXPECT_THROW(attribute_run(s, request, {}), InputError) << "nothing computes in e4m3";
}

TEST(LoggedSpec, IsWhatWasLogged) {
  for (const std::string& policy : own_policies()) {
    TrainingSpec s = tiny(policy);
    s.policy.dropout = 0.25;
    s.model.positions = Positions::rotary;
    OpRuleChange change;
    change.op = "attention";
    change.layers = {1};
    change.attributes = {{"row_term", std::string("p_dp")}, {"tile", std::int64_t{32}}};
    s.policy.rules.push_back(change);
    const auto json = json_of(s);
    EXPECT_EQ(json_of(logged_spec(json, "log")), json) << policy;
  }
}

TEST(LoggedSpec, RefusesWhatIsNone) {
  const auto json = json_of(tiny("bf16"));
  EXPECT_THROW(logged_spec(nlohmann::ordered_json::array(), "log"), InputError);
  for (const auto& [key, value] : json.items()) {
    auto without = json, other = json, more = json;
    without.erase(key);
    other[key] = nlohmann::ordered_json::array({value});
    more[key + "2"] = value;
    EXPECT_THROW(logged_spec(without, "log"), InputError) << key;
    EXPECT_THROW(logged_spec(other, "log"), InputError) << key;
    EXPECT_THROW(logged_spec(more, "log"), InputError) << key;
  }
  for (const char* rule : {R"({"op":"none"})", R"({"op":"gelu","variant":"none"})",
                           R"({"op":"gelu","attributes":{"a":1}})", R"({"op":"gelu","layers":[9]})",
                           R"({"op":"gelu","precision":"fp31"})"}) {
    auto other = json;
    other["policy"]["rules"].push_back(nlohmann::ordered_json::parse(rule));
    EXPECT_THROW(logged_spec(other, "log"), InputError) << rule;
  }
}

TEST(RankCorrelation, IsSpearmans) {
  EXPECT_EQ(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 1000}), 1);
  EXPECT_EQ(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // 1 - 6 sum d^2 / (n (n^2 - 1)), d = (0, 1, -1, 0)
  EXPECT_EQ(rank_correlation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
  EXPECT_EQ(rank_correlation({0, 0, 0}, {0, 0, 0}), 1);
  EXPECT_EQ(rank_correlation({0, 0, 0}, {1, 2, 3}), 0);
  // Ranks (1.5, 1.5, 3) and (1, 2, 3): covariance 1.5 over the root of 1.5 times 2.
  EXPECT_EQ(rank_correlation({0, 0, 1}, {1, 2, 3}), 1.5 / std::sqrt(1.5 * 2));
}

}  // namespace
}  // namespace opbound::trace
