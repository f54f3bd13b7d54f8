// The sentinel, its limits and its breaker: every planted fault is found, clean runs raise nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "distributed/trace/breaker.hpp"
#include "distributed/trace/config_check.hpp"
#include "distributed/trace/detection.hpp"
#include "distributed/trace/twin.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {
namespace {

using train::TrainingSpec;

// ---- the trend

// 200 runs of 1,000 normal values: each is to raise an alarm with probability 1%. More than 12 of
// 200 has probability 5e-8.
TEST(Trend, FalseAlarmsOfNormalValuesAreAsRareAsSaid) {
  int alarmed = 0;
  for (unsigned run = 0; run < 200; ++run) {
    std::mt19937 engine(run);
    std::normal_distribution<double> draw(3, 0.1);
    Trend trend(0.01, 1'000);
    bool is_alarmed = false;
    for (int i = 0; i < 1'000; ++i) is_alarmed = trend.take(draw(engine)) > 1 || is_alarmed;
    alarmed += is_alarmed ? 1 : 0;
  }
  EXPECT_LE(alarmed, 12);
}

TEST(Trend, SeesAJumpAndWhatIsNotFinite) {
  std::mt19937 engine(1);
  std::normal_distribution<double> draw(0, 0.1);
  Trend trend(1e-3, 1'000);
  EXPECT_EQ(trend.take(1e9), 0) << "its window is not full yet";
  trend = Trend(1e-3, 1'000);
  for (std::size_t i = 0; i < Trend::window; ++i) EXPECT_EQ(trend.take(draw(engine)), 0);
  EXPECT_LT(trend.take(0.2), 1);
  EXPECT_GT(trend.take(2.5), 1) << "a gradient 300 times too large";
  EXPECT_EQ(trend.take(NAN), HUGE_VAL);
}

// ---- settings

TEST(Settings, WhatIsSuspiciousIsSaidAndNothingElse) {
  TrainingSpec s = tiny_training("fp32");
  s.steps = 100;
  EXPECT_EQ(suspicious_settings(s, 1'000'000), std::vector<std::string>{});
  s.model.norm_eps = 1e-12;
  train::OpRuleChange norms;
  norms.op = "layer_norm";
  norms.precision = Precision{fp16, fp16, fp16};
  s.policy.rules.push_back(norms);
  s.policy.master = bf16;
  s.schedule = {1e-3, 50, 1};
  s.policy.loss_scale = train::LossScale::fixed;
  s.policy.initial_scale = 1000;
  s.micro_batches = 3;
  const std::vector<std::string> lines = suspicious_settings(s, 300);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "the norms' eps 1e-12 is 0 in fp16");
  // Half an ulp of 0.02 in bf16 is 2^-14, which the warm-up passes in its fourth step.
  EXPECT_EQ(lines[1],
            "the first 3 of 100 steps move a weight of 0.02 by 6.10352e-05 at most, half an ulp of "
            "bf16: lost");
  EXPECT_EQ(lines[2], "the loss scale 1000 is no power of two: scaling and unscaling round");
  EXPECT_EQ(lines[3],
            "the text has 300 windows of 12 tokens, the run takes 600: each comes 2.0 times");
  EXPECT_EQ(lines[4], "3 micro-batches are no power of two: their mean rounds");
}

// ---- limits from twins

class SentinelTest : public TemporaryFolder {
 protected:
  void run(const TrainingSpec& spec, const std::string& name, int twin = 0,
           train::Observer* planted = nullptr) const {
    TracerOptions options;
    options.file = path(name);
    Tracer tracer(options);
    Twin moved(static_cast<std::uint64_t>(twin));
    train::TrainOptions how;
    if (twin > 0) how.observers.push_back(&moved);
    if (planted != nullptr) how.observers.push_back(planted);
    how.observers.push_back(&tracer);
    train::train(spec, how);
  }
};

TEST_F(SentinelTest, ATwinIsWithinTheLimitsOfOthersAndAFaultIsNot) {
  for (const char* policy : {"fp32", "bf16"}) {
    TrainingSpec s = tiny_training(policy);
    s.steps = 40;
    const std::string name = policy;
    std::vector<std::string> twins;
    for (int twin = 0; twin <= 4; ++twin) run(s, name + std::to_string(twin), twin);
    for (int twin = 1; twin <= 3; ++twin) twins.push_back(path(name + std::to_string(twin)));
    const auto fault = planted_fault("rotated_query_gradient").make(20);
    run(s, name + "fault", 0, fault.get());
    TraceFile reference(path(name + "0"), TraceFile::Open::read);
    const Band band(reference, twins, 1e-3);
    const auto first_excess = [&](const std::string& other) {
      TraceFile file(path(other), TraceFile::Open::read);
      std::optional<Excess> first;
      for_each_distance(reference, file, [&](const StepDistance& d) {
        first = excess_of(d, &band);
        return !first;
      });
      return first;
    };
    EXPECT_FALSE(first_excess(name + "4").has_value()) << policy;
    if (name == "bf16") continue;  // its own rounding carries a run as far as this fault
    const std::optional<Excess> excess = first_excess(name + "fault");
    ASSERT_TRUE(excess.has_value()) << policy;
    EXPECT_EQ(excess->step, 20) << policy;
    EXPECT_EQ(reference.parameters()[excess->parameter].name, "h.0.attn.c_attn.weight") << policy;
  }
}

TEST_F(SentinelTest, LimitsAreMadeOfTwinsAlone) {
  TrainingSpec s = tiny_training("fp32");
  run(s, "a");
  run(s, "again");
  run(s, "t1", 1);
  run(s, "t2", 2);
  s.seed = 2;
  run(s, "other");
  TraceFile reference(path("a"), TraceFile::Open::read);
  const auto refusal = [&](std::vector<std::string> names) {
    for (std::string& name : names) name = path(name);
    return refused([&] { Band(reference, names, 1e-3); });
  };
  EXPECT_EQ(refusal({"t1", "t2"}), "");
  EXPECT_EQ(refusal({"t1"}), "twins: 1 of them, expected at least 2 traces");
  EXPECT_EQ(refusal({"t1", "again"}),
            "again: the reference again, bit for bit, expected a twin: the same run with --twin");
  EXPECT_EQ(refusal({"t1", "other"}),
            "other: a run of another spec than a, expected a twin: the same run with --twin");
}

TEST_F(SentinelTest, TheFirstCallThatDiffersIsNamed) {
  const TrainingSpec s = tiny_training("fp32");
  run(s, "a");
  const auto fault = planted_fault("swapped_heads").make(0);
  run(s, "b", 0, fault.get());
  TraceFile a(path("a"), TraceFile::Open::read), b(path("b"), TraceFile::Open::read);
  const auto call = first_differing_call(a, b, 0);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->a.op, "attention");
  EXPECT_EQ(call->a.layer, 0);
  EXPECT_EQ(call->a.direction, "backward_local");
  EXPECT_EQ(cause_of(*call, a.head(), b.head()), Cause::fault);
  EXPECT_TRUE(must_agree_in_bits(a.head(), b.head()));
  run(tiny_training("bf16"), "c");
  TraceFile c(path("c"), TraceFile::Open::read);
  EXPECT_FALSE(must_agree_in_bits(a.head(), c.head()));
  const auto other = first_differing_call(a, c, 0);
  EXPECT_FALSE(other.has_value()) << "weights in bf16 are other inputs";
}

// ---- planted faults

DetectionOptions quick_detection(const std::string& folder) {
  DetectionOptions options;
  options.base = tiny_training("fp32");
  options.folder = folder;
  options.first_step = 3;
  options.cap = 5;
  options.twins = 2;
  options.audit_every = 2;
  return options;
}

TEST_F(SentinelTest, EveryPlantedFaultIsFoundAndItsPlaceIsRight) {
  Detection detection(quick_detection(folder_.string()));
  EXPECT_GE(planted_faults().size(), 16U);
  std::vector<const PlantedFault*> all;
  for (const PlantedFault& fault : planted_faults()) all.push_back(&fault);
  EXPECT_GE(detection.missing_references(all), 3 * 3);
  detection.train_references(all);
  EXPECT_EQ(detection.missing_references(all), 0);
  for (const PlantedFault& fault : planted_faults()) {
    const Detected d = detection.examine(fault);
    EXPECT_TRUE(d.step_check || d.audit) << fault.name;
    EXPECT_TRUE(d.is_place_right) << fault.name << ": " << d.place;
    EXPECT_EQ(d.false_alarms, 0) << fault.name;
  }
}

TEST_F(SentinelTest, CleanRunsOfEveryPolicyRaiseNoAlarm) {
  Detection detection(quick_detection(folder_.string()));
  for (const std::string& policy : train::own_policies()) {
    const CleanRun c = detection.examine_clean(policy, 4);
    EXPECT_EQ(c.alarms, 0) << policy << ": " << c.first_alarm;
    EXPECT_EQ(c.steps, 4);
  }
}

// The end-to-end level: after weights went through 16 bits the model answers otherwise.
TEST_F(SentinelTest, PromptsAreAnsweredOtherwiseByOtherWeights) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.steps = 4;
  const auto watched = [&](const std::string& name, const std::string& reference,
                           std::string_view fault) {
    TracerOptions options;
    options.file = path(name);
    options.prompts_every = 2;
    options.prompts = {{"a", {65, 66}}, {"b", {97}}};
    Tracer tracer(options);
    SentinelOptions watch;
    if (!reference.empty()) watch.reference = path(reference);
    Sentinel sentinel(watch, tracer, nullptr);
    const auto planted = fault.empty() ? nullptr : planted_fault(fault).make(1);
    train::TrainOptions how;
    if (planted) how.observers.push_back(planted.get());
    how.observers.push_back(&tracer);
    how.observers.push_back(&sentinel);
    train::train(s, how);
    std::vector<std::string> alarms;
    for (const TraceEvent& e : sentinel.alarms())
      alarms.push_back(std::to_string(e.step) + " " + e.level + " " + e.check);
    return alarms;
  };
  EXPECT_EQ(watched("a", "", ""), std::vector<std::string>{});
  EXPECT_EQ(watched("b", "a", ""), std::vector<std::string>{});
  const std::vector<std::string> alarms = watched("c", "a", "sixteen_bit_save");
  for (const char* due :
       {"2 step weights", "2 reference fingerprint", "2 reference loss", "3 end to end prompts"})
    EXPECT_NE(std::find(alarms.begin(), alarms.end(), due), alarms.end()) << due;
}

// ---- the breaker

class BreakerTest : public SentinelTest {
 protected:
  /// The final weights' hash of a run with this fault; what is noted goes to `notes_`.
  std::uint64_t train_with(std::string_view fault, std::int64_t first, OnAlarm on_alarm) {
    TrainingSpec s = tiny_training("bf16");
    s.steps = 8;
    s.checkpoint_every = 2;
    Tracer tracer({});
    Sentinel sentinel({}, tracer, nullptr);
    const auto note = [&](const std::string& line) { notes_.push_back(line); };
    const std::string folder = path(std::string(fault) + std::to_string(first));
    Breaker breaker(sentinel, nullptr, on_alarm, folder, note);
    const auto planted = fault.empty() ? nullptr : planted_fault(fault).make(first);
    train::TrainOptions how;
    how.checkpoint_folder = folder;
    if (planted) how.observers.push_back(planted.get());
    how.observers.push_back(&tracer);
    how.observers.push_back(&sentinel);
    how.judge = [&](train::Trainer& trainer) { return breaker.judge(trainer); };
    return train::train(s, how).hash;
  }
  std::vector<std::string> notes_;
};

TEST_F(BreakerTest, APassingFaultLeavesNoTraceInTheWeights) {
  const std::uint64_t clean = train_with("", 0, OnAlarm::roll_back);
  EXPECT_TRUE(notes_.empty());
  EXPECT_EQ(train_with("nan_on_one_rank", 5, OnAlarm::roll_back), clean);
  ASSERT_EQ(notes_.size(), 2U);
  EXPECT_EQ(notes_[0],
            "alarm: step 5: not finite: h.1.mlp.c_fc.weight, rank 0, micro-batch 0: element 5 of "
            "its gradient");
  EXPECT_EQ(notes_[1], "back to the checkpoint after 4 steps");
}

TEST_F(BreakerTest, AFaultThatLastsStopsTheRun) {
  const auto stopped = [&](std::int64_t first, OnAlarm on_alarm) {
    try {
      train_with("sampler_slip", first, on_alarm);
    } catch (const ProviderFailure& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(stopped(5, OnAlarm::roll_back),
            "stopped, no older checkpoint to go back to: step 5: tokens: tokens, rank 0, "
            "micro-batch 0: texts of another step or micro-batch");
  EXPECT_EQ(std::count_if(notes_.begin(), notes_.end(),
                          [](const std::string& n) { return n.starts_with("back to"); }),
            2)
      << "both checkpoints that are kept were tried";
  EXPECT_TRUE(stopped(1, OnAlarm::roll_back).starts_with("stopped, no safe checkpoint"));
  EXPECT_TRUE(stopped(4, OnAlarm::stop).starts_with("stopped: step 4: tokens"));
  EXPECT_EQ(stopped(6, OnAlarm::note), "");
}

}  // namespace
}  // namespace opbound::trace
