// What two traces may differ by: limits keep the rate of false alarms that they state, and runs
// that need not give the same bits are not asked for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "distributed/trace/band.hpp"
#include "distributed/trace/tracer.hpp"
#include "distributed/trace/twin.hpp"
#include "distributed/train/log.hpp"
#include "distributed/train/trainer.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {
namespace {

using train::TrainingSpec;

// ---- amplitudes

/// The share of further runs that exceed their limits, of 400 draws of `twins` and one more. All
/// that a run gives is larger or smaller by one factor, whose logarithm has deviation `spread`.
double alarm_rate(std::size_t twins, double spread, double alpha, unsigned seed) {
  constexpr std::int64_t steps = 40;
  constexpr std::size_t places = 12;
  std::mt19937 engine(seed);
  std::normal_distribution<double> draw;
  const auto run = [&] {
    const double factor = std::exp(spread * draw(engine));
    std::vector<std::vector<double>> values(steps, std::vector<double>(places));
    for (std::size_t s = 0; s < values.size(); ++s)
      for (std::size_t p = 0; p < places; ++p)  // distances grow, and parameters differ
        values[s][p] = factor * std::abs(draw(engine)) * std::exp(0.2 * static_cast<double>(s)) *
                       static_cast<double>(p + 1);
    return values;
  };
  int alarmed = 0;
  constexpr int trials = 400;
  for (int trial = 0; trial < trials; ++trial) {
    Amplitudes limits;
    for (std::size_t twin = 0; twin < twins; ++twin) {
      const auto values = run();
      for (std::int64_t s = 0; s < steps; ++s)
        limits.take(twin, s, values[static_cast<std::size_t>(s)]);
    }
    limits.finish(alpha);
    const auto further = run();
    bool is_alarmed = false;
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::size_t p = 0; p < places; ++p)
        is_alarmed = is_alarmed || further[static_cast<std::size_t>(s)][p] > limits.limit(s, p);
    alarmed += is_alarmed ? 1 : 0;
  }
  return alarmed / static_cast<double>(trials);
}

// At 5% more than 40 of 400 have probability 2e-5.
TEST(Amplitudes, FalseAlarmsAreAsRareAsSaid) {
  for (const std::size_t twins : {2U, 3U, 5U, 8U})
    for (const double spread : {0.0, 0.7})
      EXPECT_LE(alarm_rate(twins, spread, 0.05, 1), 0.1) << twins << " twins, spread " << spread;
}

TEST(Amplitudes, AStepThatOneTwinHasAloneHasNoLimit) {
  Amplitudes limits;
  const std::array<double, 2> values{1e-6, 1e-3};
  for (const std::int64_t s : {0, 1, 2, 50}) limits.take(0, s, values);
  for (const std::int64_t s : {0, 1}) limits.take(1, s, values);
  limits.finish(1e-3);
  EXPECT_TRUE(std::isfinite(limits.limit(1, 1)));
  EXPECT_LT(limits.limit(1, 0), limits.limit(1, 1));
  EXPECT_EQ(static_cast<float>(limits.freedom(0)), 2) << "both twins are as far away";
  for (const std::int64_t s : {2, 50, 51}) EXPECT_EQ(limits.limit(s, 0), HUGE_VAL) << s;
}

TEST(Amplitudes, TheLeastLimitIsThatOfTheNearestPlace) {
  Amplitudes limits;
  for (std::size_t twin = 0; twin < 3; ++twin)
    for (std::int64_t s = 0; s < 4; ++s) limits.take(twin, s, std::array<double, 2>{1e-3, 1e-5});
  limits.finish(1e-3);
  EXPECT_EQ(limits.least_limit(2), limits.limit(2, 1));
  EXPECT_EQ(limits.least_limit(9), HUGE_VAL);
}

// A parameter whose gradient rounding left alone in all twins may differ in the next run.
TEST(Amplitudes, AZeroIsNoLimitWhereOthersDiffer) {
  Amplitudes limits;
  for (std::size_t twin = 0; twin < 3; ++twin)
    for (std::int64_t s = 0; s < 4; ++s)
      limits.take(twin, s, std::array<double, 2>{1e-7, s == 0 ? 0 : 1e-8});
  limits.finish(1e-3);
  EXPECT_GT(limits.limit(0, 1), 1e-8);
}

// ---- distances

TEST(Distance, IsThereForNumbersOfAnySize) {
  const std::vector<double> one(64, 1.0), two(64, 2.0);
  for (const double scale : {1e-310, 1e-200, 1.0, 1e200, 1e307}) {
    std::vector<double> a(one), b(two), c(two);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] *= scale;
      b[i] *= scale;
      c[i] *= i % 2 == 0 ? scale : -scale;
    }
    EXPECT_EQ(static_cast<float>(distance(a, b)), 0.5F) << scale;
    EXPECT_EQ(static_cast<float>(cosine(a, b)), 1) << scale;
    EXPECT_EQ(cosine(a, c), 0) << scale;
  }
  std::vector<double> broken(one);
  for (const double x : {static_cast<double>(NAN), HUGE_VAL}) {
    broken[3] = x;
    EXPECT_EQ(distance(one, broken), HUGE_VAL);
  }
}

TraceStep step_of(double gradient, double loss_scale, bool is_skipped = false) {
  TraceStep s;
  s.loss = 1;
  s.loss_scale = loss_scale;
  s.is_skipped = is_skipped;
  s.gradients.resize(1);
  s.gradients[0].sketch.fill(gradient * loss_scale);
  s.gradients[0].nonfinite = is_skipped ? 3 : 0;
  return s;
}

TEST(Distance, LossScalesAreNoDifference) {
  EXPECT_EQ(distance_of(step_of(1, 1024), step_of(1, 512)).parameters[0], 0);
  EXPECT_EQ(distance_of(step_of(1, 1024), step_of(2, 512)).parameters[0], 0.5);
  EXPECT_TRUE(distance_of(step_of(1, 1024), step_of(1, 1024, true)).has_parted);
  EXPECT_TRUE(distance_of(step_of(1, 4, true), step_of(1, 4, true)).has_skipped);
}

// ---- which runs need not agree

TraceHead head_like(const TrainingSpec& spec, std::int64_t ranks = 1) {
  TraceHead head;
  head.spec = train::json_of(spec).dump();
  head.source = "opbound 1";
  head.data_sha256 = "aa";
  head.ranks = ranks;
  head.providers = {{"own", "1"}};
  return head;
}

TEST(MustAgree, OnlyWhatComputesTheSame) {
  const TrainingSpec s = tiny_training("fp32-reproducible");
  const TraceHead a = head_like(s, 2);
  const auto with = [&](auto change) {
    TrainingSpec other = s;
    change(other);
    return must_agree_in_bits(a, head_like(other, 2));
  };
  EXPECT_TRUE(must_agree_in_bits(a, head_like(s, 4)));
  EXPECT_TRUE(with([](TrainingSpec& o) { o.steps += 5; })) << "the learning rate is constant";
  EXPECT_TRUE(with([](TrainingSpec& o) { o.sharding = train::Sharding::fsdp; }));
  EXPECT_TRUE(with([](TrainingSpec& o) { o.sharding = train::Sharding::zero3_fp32; }));
  EXPECT_FALSE(with([](TrainingSpec& o) { o.sharding = train::Sharding::zero3_offload; }));
  EXPECT_FALSE(with([](TrainingSpec& o) {
    o.sharding = train::Sharding::fsdp;
    o.gather = bf16;
  }));
  EXPECT_FALSE(with([](TrainingSpec& o) { o.seed = 9; }));
  // A cosine whose end moves is another schedule.
  TrainingSpec cosine = s, longer = s;
  cosine.schedule.final_share = longer.schedule.final_share = 0.1;
  longer.steps += 5;
  EXPECT_TRUE(must_agree_in_bits(head_like(cosine), head_like(cosine)));
  EXPECT_FALSE(must_agree_in_bits(head_like(cosine), head_like(longer)));
  TraceHead twin = a, text = a, version = a;
  twin.environment = {{"twin", "1"}};
  text.data_sha256 = "bb";
  version.source = "opbound 2";
  for (const TraceHead& other : {twin, text, version}) EXPECT_FALSE(must_agree_in_bits(a, other));
  // A sum in the order of the ranks hangs on how they share it.
  TrainingSpec plain = tiny_training("fp32");
  const TraceHead dp = head_like(plain, 2), alone = head_like(plain);
  plain.sharding = train::Sharding::fsdp;
  EXPECT_FALSE(must_agree_in_bits(dp, head_like(plain, 2)));
  EXPECT_TRUE(must_agree_in_bits(alone, head_like(plain)));
  EXPECT_FALSE(must_agree_in_bits(dp, alone));
}

TEST(MustAgree, ASpecOfNothingIsNoRun) {
  TraceHead empty;
  empty.spec = "{}";
  EXPECT_FALSE(must_agree_in_bits(empty, head_like(tiny_training("fp32"))));
  EXPECT_FALSE(differences(empty, head_like(tiny_training("fp32"))).empty());
}

// ---- traces of runs

class TraceLimits : public TemporaryFolder {
 protected:
  std::string run(const TrainingSpec& spec, const std::string& name, int twin = 0,
                  const std::filesystem::path& weights = {}) const {
    TracerOptions options;
    options.file = path(name);
    options.full_every = 0;
    Tracer tracer(options);
    Twin moved(static_cast<std::uint64_t>(twin));
    train::TrainOptions how;
    how.weights = weights;
    if (twin > 0) how.observers.push_back(&moved);
    how.observers.push_back(&tracer);
    train::train(spec, how);
    return path(name);
  }
  /// Steps at which `other` exceeds the limits of these twins.
  int exceeding(const std::string& reference, const std::vector<std::string>& twins,
                const std::string& other, double alpha) const {
    TraceFile a(reference, TraceFile::Open::read), b(other, TraceFile::Open::read);
    const Band band(a, twins, alpha);
    int count = 0;
    for_each_distance(a, b, [&](const StepDistance& d) {
      const bool is_loss = !band.has_parted(d) && d.loss > band.loss_limit(d.step);
      count += excess_of(d, &band) || is_loss ? 1 : 0;
      return true;
    });
    return count;
  }
};

// The first of these limits called 11% (fp32) and 3% (bf16) of such comparisons an alarm.
TEST_F(TraceLimits, CleanRunsStayWithinTheLimitsOfAnyTwins) {
  for (const char* policy : {"fp32", "bf16"}) {
    TrainingSpec s = tiny_training(policy);
    s.steps = 20;
    s.micro_batches = 1;
    s.model.layers = 1;
    std::vector<std::string> twins;
    const std::string name = policy, reference = run(s, name + "0");
    constexpr std::size_t count = 12;
    for (std::size_t t = 1; t <= count; ++t)
      twins.push_back(run(s, name + std::to_string(t), static_cast<int>(t)));
    for (std::size_t first = 0; first < count; ++first) {
      std::vector<std::string> three;
      for (std::size_t i = 0; i < 3; ++i) three.push_back(twins[(first + i) % count]);
      for (std::size_t other = 3; other < count; ++other)
        EXPECT_EQ(exceeding(reference, three, twins[(first + other) % count], 1e-3), 0)
            << policy << ", twins from " << first << ", run " << (first + other) % count;
    }
  }
}

TEST_F(TraceLimits, ATwinOfTrainedWeightsIsOne) {
  TrainingSpec s = tiny_training("fp32");
  const std::filesystem::path weights = path("w.safetensors");
  train::TrainOptions how;
  how.save_weights = weights;
  train::train(s, how);
  run(s, "a", 0, weights);
  run(s, "t", 1, weights);
  TraceFile a(path("a"), TraceFile::Open::read), t(path("t"), TraceFile::Open::read);
  const StepDistance d = distance_of(*a.step(0), *t.step(0));
  EXPECT_FALSE(d.has_same_bits());
  for (const double x : d.parameters) EXPECT_LT(x, 1e-4);
}

TEST_F(TraceLimits, ATwinTwiceIsOneTwin) {
  const TrainingSpec s = tiny_training("fp32");
  const std::string a = run(s, "a"), t = run(s, "t", 1);
  const std::string other = run(s, "other", 2);
  std::filesystem::copy(t, path("copy"));
  TraceFile reference(a, TraceFile::Open::read);
  EXPECT_EQ(refused([&] {
              Band(reference, {t, path("copy")}, 1e-3);
            }),
            "copy: the same run as a twin before it, expected twins of other seeds");
  EXPECT_EQ(refused([&] { Band(reference, {t, other}, 1e-3); }), "");
}

TEST_F(TraceLimits, AShortTwinCountsAsFarAsItGoes) {
  TrainingSpec s = tiny_training("fp32");
  s.steps = 40;
  const std::string a = run(s, "a"), one = run(s, "t1", 1), two = run(s, "t2", 2),
                    three = run(s, "t3", 3);
  {
    TraceFile cut(three, TraceFile::Open::go_on);
    cut.drop_from(2);
  }
  TraceFile reference(a, TraceFile::Open::read);
  const Band band(reference, {one, two, three}, 1e-3);
  for (std::int64_t step = 0; step < s.steps; ++step)
    EXPECT_TRUE(std::isfinite(band.limit(step, 0))) << step;
  const Band pair(reference, {one, three}, 1e-3);
  EXPECT_TRUE(std::isfinite(pair.limit(1, 0)));
  EXPECT_EQ(pair.limit(2, 0), HUGE_VAL);
}

TEST_F(TraceLimits, AStepThatCannotBeIsRefused) {
  run(tiny_training("fp32"), "a");
  TraceFile writer(path("a"), TraceFile::Open::go_on);
  for (const std::int64_t step : {std::int64_t{-1}, std::int64_t{1} << 50}) {
    TraceStep s = *writer.step(0);
    s.step = step;
    writer.write(s, {});
    EXPECT_EQ(refused([&] { writer.step(step); }),
              "a: step " + std::to_string(step) +
                  " is damaged, expected a trace that `opbound train --trace` made");
  }
}

// A dynamic loss scale whose overflows rounding decides: runs that skip other updates part, and
// gradients that overflow in both are no distance.
TEST_F(TraceLimits, OverflowsOfADynamicLossScaleAreNoAlarm) {
  TrainingSpec s = tiny_training("fp16-scaled");
  s.steps = 60;
  s.micro_batches = 1;
  s.policy.initial_scale = 0x1p24;
  s.policy.growth_factor = 1.1;
  s.policy.backoff_factor = 0.7;
  s.policy.growth_interval = 1;
  std::vector<std::string> twins;
  const std::string reference = run(s, "0");
  for (int t = 1; t <= 3; ++t) twins.push_back(run(s, std::to_string(t), t));
  for (int t = 4; t <= 8; ++t)
    EXPECT_EQ(exceeding(reference, twins, run(s, std::to_string(t), t), 1e-3), 0) << t;
}

TEST_F(TraceLimits, TheTextOfATraceIsKnown) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  put("one.txt", std::string(400, 'a') + std::string(400, 'b'));
  put("two.txt", std::string(400, 'b') + std::string(400, 'a'));
  std::vector<TraceHead> heads;
  for (const char* text : {"one.txt", "two.txt"}) {
    s.data = path(text);
    run(s, std::string(text) + ".trace");
    TraceFile file(path(std::string(text) + ".trace"), TraceFile::Open::read);
    heads.push_back(file.head());
    EXPECT_EQ(heads.back().data_sha256.size(), 64U);
  }
  EXPECT_FALSE(must_agree_in_bits(heads[0], heads[1]));
  heads[1].data_sha256 = heads[0].data_sha256;
  EXPECT_TRUE(must_agree_in_bits(heads[0], heads[1]));
}

}  // namespace
}  // namespace opbound::trace
