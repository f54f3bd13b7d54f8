// The tracer of a run, and its twins.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "distributed/thread_ranks.hpp"
#include "distributed/trace/tracer.hpp"
#include "distributed/trace/twin.hpp"
#include "distributed/train/trainer.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tiny_training.hpp"
#include "tests/trace_step.hpp"

namespace opbound::trace {
namespace {

using train::TrainingSpec;

class TracerTest : public TemporaryFolder {};

/// Every step's trace of a run on so many ranks, each a thread; all of them have to see the same.
std::vector<TraceStep> traced(const TrainingSpec& spec, std::int32_t ranks,
                              std::uint64_t twin = 0) {
  Post post;
  std::vector<std::vector<TraceStep>> seen(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      TracerOptions options;
      options.full_every = 2;
      Tracer tracer(options);
      Twin moved(twin);
      train::TrainOptions how;
      if (twin > 0) how.observers.push_back(&moved);
      how.observers.push_back(&tracer);
      how.join = [&, r] {
        return host_collectives(std::make_unique<ThreadRank>(post, r, ranks), "threads");
      };
      how.on_step = [&](const train::StepResult&) {
        seen[static_cast<std::size_t>(r)].push_back(tracer.last());
      };
      train::train(spec, how);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& of_rank : seen)
    for (std::size_t s = 0; s < of_rank.size(); ++s) expect_same(of_rank[s], seen[0][s]);
  return seen[0];
}

TEST(Tracer, TheSameNumbersOnAnyNumberOfRanksAndInAnySharding) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  const std::vector<TraceStep> one = traced(s, 1);
  ASSERT_EQ(one.size(), 3U);
  EXPECT_FALSE(one[0].full.empty());
  EXPECT_TRUE(one[1].full.empty());
  EXPECT_FALSE(one[2].full.empty());
  for (const std::int32_t ranks : {2, 4})
    for (const train::Sharding sharding : {train::Sharding::dp, train::Sharding::fsdp}) {
      s.sharding = sharding;
      const std::vector<TraceStep> many = traced(s, ranks);
      ASSERT_EQ(many.size(), one.size());
      for (std::size_t i = 0; i < many.size(); ++i) expect_same(many[i], one[i]);
    }
}

TEST(Tracer, SumsAreThoseOfTheGradientsOfTheRun) {
  const TrainingSpec s = tiny_training("fp32-reproducible");
  Tracer tracer({});
  train::TrainOptions how;
  how.observers = {&tracer};
  train::Trainer trainer(s, how);
  trainer.set_initial_weights();
  train::StepTensors tensors;
  const train::StepResult result = trainer.step(&tensors);
  double all = 0;
  for (std::size_t p = 0; p < tensors.gradient.size(); ++p) {
    const GradientSums& sum = tracer.last().gradients[p];
    double square = 0;
    for (const double g : tensors.gradient[p].values()) square += g * g;
    EXPECT_LE(std::abs(sum.square - (square)), 1e-12 * square) << tracer.parameters()[p].name;
    EXPECT_EQ(sum.count, tensors.gradient[p].count());
    all += sum.square;
    const FullPrint& full = tracer.last().full[p];
    const std::vector<double> g = tensors.gradient[p].values();
    for (const double x : g)
      EXPECT_LE(std::abs(x), std::abs(g[static_cast<std::size_t>(full.largest[0])]));
    EXPECT_EQ(full.shares.empty(), tensors.gradient[p].shape().size() != 2);
  }
  // The run's norm is rounded to fp32 in each of its 64 shards and once more.
  EXPECT_LE(std::abs(std::sqrt(all) - (result.gradient_norm)), 1e-5 * result.gradient_norm);
}

TEST(Tracer, ATwinDiffersByItsRoundingAlone) {
  for (const char* policy : {"fp32-reproducible", "bf16"}) {
    const TrainingSpec s = tiny_training(policy);
    const std::vector<TraceStep> run = traced(s, 1), twin = traced(s, 1, 1);
    EXPECT_EQ(run[0].sample_hash, twin[0].sample_hash);
    EXPECT_EQ(run[0].random_hash, twin[0].random_hash);
    double most = 0;
    for (std::size_t p = 0; p < run[0].gradients.size(); ++p)
      most = std::max(most, distance(run[0].gradients[p].sketch, twin[0].gradients[p].sketch));
    // Half an ulp of each weight, carried through a few hundred operations.
    const double u = std::string(policy) == "bf16" ? 0x1p-8 : 0x1p-24;
    EXPECT_GT(most, u / 16) << policy;
    EXPECT_LT(most, 1'000 * u) << policy;
  }
}

TEST(Tracer, PromptsAreAskedWithTheWeightsOfTheStep) {
  const auto asked = [](std::int32_t ranks) {
    TrainingSpec s = tiny_training("fp32-reproducible");
    s.sharding = ranks > 1 ? train::Sharding::fsdp : train::Sharding::dp;
    Post post;
    std::vector<TraceStep> steps;
    std::vector<std::thread> threads;
    for (std::int32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        TracerOptions options;
        options.prompts_every = 2;
        options.prompts = {{"a", {65}}, {"long", train::Tokens(40, 66)}};
        Tracer tracer(options);
        train::TrainOptions how;
        how.observers = {&tracer};
        how.join = [&, r] {
          return host_collectives(std::make_unique<ThreadRank>(post, r, ranks), "threads");
        };
        how.on_step = [&](const train::StepResult&) {
          if (r == ranks - 1) steps.push_back(tracer.last());
        };
        train::train(s, how);
      });
    for (std::thread& t : threads) t.join();
    return steps;
  };
  const std::vector<TraceStep> one = asked(1), two = asked(2);
  ASSERT_EQ(one.size(), 3U);
  EXPECT_TRUE(one[0].prompts.empty());
  ASSERT_EQ(one[1].prompts.size(), 2U);
  EXPECT_EQ(one[1].prompts[0].size(), 256U);
  EXPECT_NE(one[1].prompts[0], one[1].prompts[1]);
  EXPECT_EQ(two[1].prompts, one[1].prompts);
}

TEST_F(TracerTest, BitsOfCallsTellRunsApart) {
  const auto run = [&](const std::string& name, std::uint64_t seed) {
    TrainingSpec s = tiny_training("fp32");
    s.seed = seed;
    s.steps = 1;
    TracerOptions options;
    options.file = path(name);
    Tracer tracer(options);
    train::TrainOptions how;
    how.observers = {&tracer};
    train::train(s, how);
    TraceFile file(path(name), TraceFile::Open::read);
    const std::vector<TraceCall> calls = file.calls();
    const auto of_model = static_cast<std::size_t>(
        std::count_if(calls.begin(), calls.end(), [](const TraceCall& c) { return c.phase == 0; }));
    // The model's calls come once in each micro-batch, the others once.
    EXPECT_EQ(file.bits(0).size(), 4 * of_model + calls.size() - of_model);
    return file.bits(0);
  };
  const auto a = run("a.trace", 1), b = run("b.trace", 1), c = run("c.trace", 2);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

/// The file is a step behind the run, but never behind a checkpoint: a run that is killed after one
/// goes on from there, and its trace has no gap.
TEST_F(TracerTest, NoCheckpointIsAheadOfTheFile) {
  TracerOptions options;
  options.file = path("a.trace");
  Tracer tracer(options);
  train::TrainOptions how;
  how.observers = {&tracer};
  train::Trainer trainer(tiny_training("fp32"), how);
  trainer.set_initial_weights();
  const auto last = [&] {
    return TraceFile(options.file.string(), TraceFile::Open::read).last_step();
  };
  trainer.step();
  EXPECT_EQ(last(), -1);
  trainer.step();
  EXPECT_EQ(last(), 0);
  trainer.save(path("c"));
  EXPECT_EQ(last(), 1);
}

}  // namespace
}  // namespace opbound::trace
