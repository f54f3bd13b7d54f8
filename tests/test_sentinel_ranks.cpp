// Faults that one rank alone sees, what dynamic loss scales hide, suspicions, and from where a
// breaker may go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "distributed/thread_ranks.hpp"
#include "distributed/trace/breaker.hpp"
#include "distributed/trace/planted.hpp"
#include "distributed/train/trainer.hpp"
#include "distributed/train/whole.hpp"
#include "ops/provider.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {
namespace {

using train::TrainingSpec;

/// Changes arrays of one rank at one step, once.
class OneRank : public train::Observer {
 public:
  enum class What : std::uint8_t { gradient, gradients, weights };
  OneRank(What what, std::int32_t rank, std::int64_t step)
      : what_(what), rank_(rank), step_(step) {}

  void begin(const train::RunView& run) override { run_.emplace(run); }
  void reduced(std::int64_t step) override {
    if (what_ != What::weights) change(step, run_->arrays.gradient, run_->spec.policy.gradient);
  }
  void between_steps(std::int64_t step) override {
    if (what_ == What::weights) change(step, run_->arrays.master, run_->spec.policy.master);
  }

 private:
  /// One element by 3 ulp; `gradients`: all of them by 1%.
  void change(std::int64_t step, std::byte* array, const Format& f) {
    if (step != step_ || has_struck_ || run_->ranks.rank() != rank_) return;
    has_struck_ = true;
    const Element e = element_of(f);
    std::vector<std::byte> own = train::owned_array(run_->machine, run_->owned, e, array);
    std::int64_t i = 0;
    while (load(e, own.data(), i) == 0) ++i;
    const double x = load(e, own.data(), i);
    store(e, own.data(), i, x + 3 * ulp(f, x));
    for (i = 0; what_ == What::gradients && i < std::ssize(own) / bytes_of(e); ++i)
      store(e, own.data(), i, round_to(f, 1.01 * load(e, own.data(), i)));
    run_->machine.write(array, own.data(), std::ssize(own));
  }

  What what_;
  std::int32_t rank_;
  std::int64_t step_;
  bool has_struck_ = false;
  std::optional<train::RunView> run_;
};

/// Every micro-batch's gradient has one element that is not a number, from a step on.
class AlwaysNan : public train::Observer {
 public:
  explicit AlwaysNan(std::int64_t first) : first_(first) {}
  void gradient(std::int64_t step, std::int64_t, std::byte* flat) override {
    if (step >= first_) store(Element::fp32, flat, 7, NAN);
  }

 private:
  std::int64_t first_;
};

class SentinelRanks : public TemporaryFolder {
 protected:
  using Make = std::function<std::unique_ptr<train::Observer>()>;

  struct Seen {
    std::vector<std::string> alarms;
    std::string stopped;  ///< what a rank said when it ended
    std::uint64_t hash = 0;

    bool operator==(const Seen&) const = default;
  };

  /// What each rank saw of a run with this fault.
  std::vector<Seen> watched(const TrainingSpec& spec, std::int32_t ranks, const Make& make,
                            OnAlarm on_alarm = OnAlarm::note,
                            const std::string& reference = {}) const {
    Post post;
    std::vector<Seen> seen(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (std::int32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Seen& own = seen[static_cast<std::size_t>(r)];
        Tracer tracer({});
        SentinelOptions options;
        options.reference = reference;
        Sentinel sentinel(options, tracer, nullptr);
        Breaker breaker(sentinel, nullptr, on_alarm, path("checkpoints"), {});
        const auto fault = make ? make() : nullptr;
        train::TrainOptions how;
        how.join = [&, r] {
          return host_collectives(std::make_unique<ThreadRank>(post, r, ranks), "threads");
        };
        if (fault) how.observers.push_back(fault.get());
        how.observers.push_back(&tracer);
        how.observers.push_back(&sentinel);
        how.judge = [&](train::Trainer& trainer) { return breaker.judge(trainer); };
        if (on_alarm == OnAlarm::roll_back) how.checkpoint_folder = path("checkpoints");
        try {
          own.hash = train::train(spec, how).hash;
        } catch (const ProviderFailure& e) {
          own.stopped = e.what();
        }
        for (const TraceEvent& e : sentinel.alarms()) own.alarms.push_back(text_of(e));
      });
    for (std::thread& t : threads) t.join();
    return seen;
  }
  static Make one_rank(OneRank::What what, std::int32_t rank, std::int64_t step) {
    return [=] { return std::make_unique<OneRank>(what, rank, step); };
  }
};

bool names(const std::vector<std::string>& alarms, std::string_view part) {
  return std::any_of(alarms.begin(), alarms.end(),
                     [&](const std::string& a) { return a.find(part) != std::string::npos; });
}

// ---- one rank

// Three ulp in one element of one rank's gradient or weights: all ranks say so, and act alike.
TEST_F(SentinelRanks, WhatOneRankFindsEveryRankTells) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.steps = 4;
  {
    TracerOptions options;
    options.file = path("reference");
    Tracer tracer(options);
    train::TrainOptions how;
    how.observers = {&tracer};
    train::train(s, how);
  }
  EXPECT_TRUE(watched(s, 2, {}, OnAlarm::note, path("reference"))[0].alarms.empty());
  const auto gradient =
      watched(s, 2, one_rank(OneRank::What::gradient, 1, 1), OnAlarm::note, path("reference"));
  EXPECT_EQ(gradient[0].alarms, gradient[1].alarms);
  EXPECT_TRUE(names(gradient[0].alarms, "step 1: fingerprint: ")) << gradient[0].alarms.size();
  EXPECT_TRUE(names(gradient[0].alarms, "as rank 1 sees it"));
  const auto stopped =
      watched(s, 2, one_rank(OneRank::What::gradient, 1, 1), OnAlarm::stop, path("reference"));
  EXPECT_EQ(stopped[0], stopped[1]);
  EXPECT_TRUE(stopped[0].stopped.starts_with("stopped: step 1: fingerprint")) << stopped[0].stopped;
}

TEST_F(SentinelRanks, ReplicasThatPartAreFoundWithoutAReference) {
  TrainingSpec s = tiny_training("fp32");
  s.steps = 4;
  const auto seen = watched(s, 2, one_rank(OneRank::What::gradients, 1, 1));
  EXPECT_EQ(seen[0].alarms, seen[1].alarms);
  ASSERT_FALSE(seen[0].alarms.empty());
  EXPECT_EQ(seen[0].alarms[0], "step 2: weights: weights, rank 1: not those of rank 0");
  // Shards are no replicas.
  s.sharding = train::Sharding::fsdp;
  EXPECT_TRUE(watched(s, 2, {})[0].alarms.empty());
}

// ---- dynamic loss scales

// A NaN in every step is no overflow: the scale falls to 1, where it makes nothing larger.
TEST_F(SentinelRanks, ALossScaleThatFallsToOneIsAnAlarm) {
  TrainingSpec s = tiny_training("fp16-scaled");
  s.policy.initial_scale = 8;
  s.steps = 6;
  const auto seen = watched(s, 1, [] { return std::make_unique<AlwaysNan>(0); });
  EXPECT_TRUE(names(seen[0].alarms, "step 3: not finite: "));
  EXPECT_TRUE(names(seen[0].alarms, "at a loss scale of 1, which makes nothing larger"))
      << seen[0].alarms.back();
  EXPECT_FALSE(names(seen[0].alarms, "step 2: not finite: ")) << "2 may have been too much";
  s.policy.initial_scale = 0x1p24;
  EXPECT_TRUE(watched(s, 1, {})[0].alarms.empty()) << "overflows that the scale cures";
}

// ---- the breaker

// Weights that were damaged after step 5 are in the checkpoint of 6 steps too.
TEST_F(SentinelRanks, ACheckpointOfDamagedWeightsIsNotGoneBackTo) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.steps = 8;
  const std::uint64_t clean = watched(s, 1, {})[0].hash;
  s.checkpoint_every = 2;
  for (const std::int32_t ranks : {1, 2}) {
    std::filesystem::remove_all(path("checkpoints"));
    const auto seen =
        watched(s, ranks, one_rank(OneRank::What::weights, ranks - 1, 5), OnAlarm::roll_back);
    for (const Seen& own : seen) {
      EXPECT_EQ(own.hash, clean) << ranks << " ranks: " << own.stopped;
      ASSERT_FALSE(own.alarms.empty());
      EXPECT_TRUE(own.alarms[0].starts_with("step 6: weights: weights, rank ")) << own.alarms[0];
    }
  }
}

TEST_F(SentinelRanks, AnAlarmStaysInTheTraceOfARunThatWentBack) {
  TrainingSpec s = tiny_training("bf16");
  s.steps = 8;
  s.checkpoint_every = 2;
  TracerOptions options;
  options.file = path("run.trace");
  {
    Tracer tracer(options);
    Sentinel sentinel({}, tracer, nullptr);
    Breaker breaker(sentinel, nullptr, OnAlarm::roll_back, path("checkpoints"), {});
    const auto fault = planted_fault("nan_on_one_rank").make(5);
    train::TrainOptions how;
    how.checkpoint_folder = path("checkpoints");
    how.observers = {fault.get(), &tracer, &sentinel};
    how.judge = [&](train::Trainer& trainer) { return breaker.judge(trainer); };
    train::train(s, how);
  }
  TraceFile file(path("run.trace"), TraceFile::Open::read);
  EXPECT_EQ(file.last_step(), 7);
  const std::vector<TraceEvent> events = file.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].step, 5);
  EXPECT_EQ(events[0].check, "not finite");
}

// ---- suspicions and references

// A healthy run whose loss leaves its prediction interval: heavy tails of small batches.
TEST_F(SentinelRanks, AnUnexpectedLossIsASuspicionAndNoAlarm) {
  TrainingSpec s = tiny_training("fp32");
  put("text.txt",
      std::string(4'000, 'a') + "An unlikely end, once in an epoch." + std::string(4'000, 'a'));
  s.data = path("text.txt");
  s.model.layers = 1;
  s.schedule.lr = 1e-2;
  s.micro_batches = 1;
  s.sequences = 1;
  s.steps = 700;
  Tracer tracer({});
  std::vector<std::string> notes;
  SentinelOptions options;
  options.on_note = [&](const std::string& line) { notes.push_back(line); };
  Sentinel sentinel(options, tracer, nullptr);
  train::TrainOptions how;
  how.observers = {&tracer, &sentinel};
  train::train(s, how);
  EXPECT_TRUE(sentinel.alarms().empty());
  ASSERT_FALSE(sentinel.suspicions().empty());
  EXPECT_TRUE(names(notes, "suspicion: step "));
}

TEST_F(SentinelRanks, AReferenceWithoutALimitIsRefused) {
  TrainingSpec s = tiny_training("fp32");
  TracerOptions options;
  options.file = path("reference");
  {
    Tracer tracer(options);
    train::TrainOptions how;
    how.observers = {&tracer};
    train::train(s, how);
  }
  const auto watch = [&](const TrainingSpec& spec, std::vector<std::string>& notes) {
    return refused([&] {
      Tracer tracer({});
      SentinelOptions watching;
      watching.reference = path("reference");
      watching.on_note = [&](const std::string& line) { notes.push_back(line); };
      Sentinel sentinel(watching, tracer, nullptr);
      train::TrainOptions how;
      how.observers = {&tracer, &sentinel};
      train::train(spec, how);
    });
  };
  std::vector<std::string> notes;
  EXPECT_EQ(watch(s, notes), "");
  TrainingSpec longer = s;
  longer.steps = s.steps + 2;
  EXPECT_EQ(watch(longer, notes), "");
  EXPECT_TRUE(names(notes, "the reference has 3 of 5 steps: the others are not compared with it"));
  EXPECT_EQ(
      watch(tiny_training("bf16"), notes),
      "reference: a run that need not give this run's bits (policy.name fp32 / bf16, "
      "policy.rules.0.precision fp32 / bf16:fp32:bf16, policy.rules.1.op - / cross_entropy, and 1 "
      "more), and no twins for limits, expected --twins, or a reference of the same spec, text, "
      "version and ranks");
}

}  // namespace
}  // namespace opbound::trace
