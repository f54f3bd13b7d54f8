// The training loop: bits that do not hang on checkpointing, sharding or a resume, gradients that
// agree with fp64 and with finite differences.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "distributed/train/trainer.hpp"
#include "ops/hash.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thread_ranks.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::train {
namespace {

std::uint64_t final_hash(const TrainingSpec& spec) { return train(spec, {}).hash; }

/// Does the loss fall by more than it ever rose from one step's text to the next?
void expect_fall(const TrainingSpec& spec, TrainResult& result) {
  TrainOptions options;
  std::vector<double> losses;
  options.on_step = [&](const StepResult& step) { losses.push_back(step.loss); };
  result = train(spec, options);
  double rise = 0;
  for (std::size_t i = 1; i < losses.size(); ++i) rise = std::max(rise, losses[i] - losses[i - 1]);
  EXPECT_GT(losses.front() - losses.back(), rise);
}

TEST(Train, LossFallsAndTheSameRunHasTheSameBits) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.steps = 30;
  s.schedule.lr = 1e-2;
  TrainResult a;
  expect_fall(s, a);
  EXPECT_EQ(a.hash, final_hash(s));
}

TEST(Train, ComputingAgainWhatWasNotKeptChangesNoBit) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.policy.dropout = 0.1;
  const std::uint64_t kept = final_hash(s);
  s.policy.checkpointing = Checkpointing::attention;
  EXPECT_EQ(final_hash(s), kept);
  s.policy.checkpointing = Checkpointing::all;
  EXPECT_EQ(final_hash(s), kept);
  s.policy.stored_input = bf16;
  EXPECT_NE(final_hash(s), kept) << "inputs that are stored in 16 bits are others";
}

/// Every choice of the model, each once.
std::vector<ModelSpec> models() {
  const ModelSpec first = tiny_training("fp64").model;
  std::vector<ModelSpec> all(5, first);
  all[0].positions = Positions::rotary;
  all[1].norm = Norm::rms_norm;
  all[1].biases = false;
  all[2].activation = Activation::swiglu;
  all[3].tied_head = false;
  all[3].activation = Activation::gelu_tanh;
  all[4].biases = false;
  return all;
}

double direction(const Tensor& t, std::int64_t i) {
  const double sign = element_hash(i, 1) % 2 == 0 ? 1 : -1;
  return sign / std::sqrt(static_cast<double>(t.count()));
}

double largest(const Tensor& t) {
  double most = 0;
  for (const double x : t.values()) most = std::max(most, std::abs(x));
  return most;
}

class Model : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Choices, Model, testing::Range<std::size_t>(0, 5));

/// The loss's difference quotient along +-1 / sqrt(n) in every element of a parameter.
double quotient(Trainer& trainer, const std::vector<Tensor>& weights, std::size_t p, double h) {
  std::vector<Tensor> unused;
  const auto loss_at = [&](double step) {
    std::vector<Tensor> moved = weights;
    for (std::int64_t i = 0; i < moved[p].count(); ++i)
      moved[p].set(i, moved[p].at(i) + step * direction(moved[p], i));
    trainer.set_weights(moved);
    return trainer.gradients(1, unused);
  };
  return (loss_at(h) - loss_at(-h)) / (2 * h);
}

// Central quotients, extrapolated to h = 0 (Richardson 1911), against the gradient; what they err
// by is read from the coarser ones.
TEST_P(Model, GradientsInFp64AreWhatDifferenceQuotientsApproach) {
  TrainingSpec s = tiny_training("fp64");
  s.model = models()[GetParam()];
  Trainer trainer(s, {});
  trainer.set_initial_weights();
  const std::vector<Tensor> weights = trainer.weights();
  std::vector<Tensor> gradients;
  const double loss = trainer.gradients(1, gradients);
  for (std::size_t p = 0; p < weights.size(); ++p) {
    double expected = 0;
    for (std::int64_t i = 0; i < weights[p].count(); ++i)
      expected += direction(weights[p], i) * gradients[p].at(i);
    EXPECT_GT(largest(gradients[p]), 0) << p;
    // (4 q(h / 2) - q(h)) / 3 errs by the fourth power of h, so a step tells what the next one errs
    // by.
    const auto extrapolated = [&](double h) {
      return (4 * quotient(trainer, weights, p, h / 2) - quotient(trainer, weights, p, h)) / 3;
    };
    constexpr double h = 0x1p-6;
    const double fine = extrapolated(h), middle = extrapolated(2 * h), coarse = extrapolated(4 * h);
    // Beside it the last rounding of each loss: 2 of them over h, 4 times, and 2 over 2 h, by 3.
    const double roundings = (4 * 2 / h + 2 / (2 * h)) / 3 * 0x1p-53 * loss;
    EXPECT_LE(std::abs(fine - expected),
              std::abs(fine - middle) + std::abs(middle - coarse) + roundings)
        << p;
  }
}

class EveryPolicy : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Ready, EveryPolicy, testing::ValuesIn(own_policies()),
                         [](const auto& choice) {
                           std::string name = choice.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

// In 16 and 8 bits a step is noisier, but it is a step downhill all the same.
TEST_P(EveryPolicy, TrainsTheTinyModel) {
  TrainingSpec s = tiny_training(GetParam());
  s.steps = 12;
  s.schedule.lr = 1e-2;
  TrainResult r;
  expect_fall(s, r);
  EXPECT_EQ(r.steps, 12);
}

class TrainFiles : public TemporaryFolder {};

TEST_F(TrainFiles, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.policy.dropout = 0.1;
  s.policy.loss_scale = LossScale::dynamic;
  s.policy.growth_interval = 2;
  s.steps = 6;
  const std::uint64_t whole = final_hash(s);
  TrainOptions options;
  options.checkpoint_folder = path("run");
  std::int64_t done = 0;
  options.on_step = [&](const StepResult&) { ++done; };
  options.should_stop = [&] { return done == 3; };
  const TrainResult stopped = train(s, options);
  EXPECT_TRUE(stopped.is_interrupted);
  EXPECT_EQ(stopped.steps, 3);
  options.should_stop = {};
  EXPECT_THROW(train(s, options), InputError) << "a new run among an old one's checkpoints";
  {
    Trainer other(s, {});
    other.claim(path("taken"));
    TrainOptions second;
    second.checkpoint_folder = path("taken");
    EXPECT_THROW(train(s, second), InputError) << "two runs in one folder";
  }
  options.resume = true;
  const TrainResult resumed = train(s, options);
  EXPECT_EQ(resumed.steps, 6);
  EXPECT_EQ(resumed.hash, whole);
  s.seed = 2;
  EXPECT_THROW(train(s, options), InputError);
}

TEST(Train, ShardedParametersChangeNoBitUnlessTheyTravelIn16Bits) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  const std::uint64_t whole = final_hash(s);
  for (const Sharding sharding : {Sharding::fsdp, Sharding::zero3_fp32}) {
    s.sharding = sharding;
    EXPECT_EQ(final_hash(s), whole) << sharding_names[static_cast<std::size_t>(sharding)];
  }
  s.sharding = Sharding::zero3_offload;
  EXPECT_NE(final_hash(s), whole);
}

/// The run on so many ranks, each a thread; all of them have to give the same hash.
std::uint64_t hash_on(std::int32_t ranks, const TrainingSpec& spec) {
  Post post;
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      TrainOptions options;
      options.join = [&, r] {
        return host_collectives(std::make_unique<ThreadRank>(post, r, ranks), "threads");
      };
      hashes[static_cast<std::size_t>(r)] = train(spec, options).hash;
    });
  for (std::thread& t : threads) t.join();
  for (const std::uint64_t hash : hashes) EXPECT_EQ(hash, hashes.front());
  return hashes.front();
}

TEST(Train, RanksAndShardingsChangeNoBit) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.policy.dropout = 0.1;
  const std::uint64_t one = final_hash(s);
  for (const std::int32_t ranks : {2, 4})
    for (const Sharding sharding : {Sharding::dp, Sharding::fsdp, Sharding::zero3_fp32}) {
      s.sharding = sharding;
      EXPECT_EQ(hash_on(ranks, s), one)
          << ranks << " " << sharding_names[static_cast<std::size_t>(sharding)];
    }
}

// Of other policies too all ranks have the same weights, and the sum's order is all that differs.
TEST(Train, RanksAgreeInEveryPolicyAndSharding) {
  for (const char* policy : {"fp32", "bf16", "fp16-scaled"})
    for (const Sharding sharding : {Sharding::dp, Sharding::fsdp, Sharding::zero3_offload}) {
      TrainingSpec s = tiny_training(policy);
      s.sharding = sharding;
      s.policy.reduction = bf16;
      EXPECT_NE(hash_on(2, s), 0U);
    }
}

/// How many of two ranks, each with a spec of its own, are refused.
int refused_of_two(const TrainingSpec& first, const TrainingSpec& second) {
  Post post;
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (const std::int32_t r : {0, 1})
    threads.emplace_back([&, r] {
      TrainOptions options;
      options.join = [&, r] {
        return host_collectives(std::make_unique<ThreadRank>(post, r, 2), "threads");
      };
      try {
        train(r == 0 ? first : second, options);
      } catch (const InputError&) {
        ++refused;
      }
    });
  for (std::thread& t : threads) t.join();
  return refused;
}

TEST(Train, RanksThatRunDifferentThingsAreRefused) {
  const TrainingSpec first = tiny_training("fp32-reproducible");
  EXPECT_EQ(refused_of_two(first, first), 0);
  TrainingSpec second = first;
  second.seed = 9;
  EXPECT_EQ(refused_of_two(first, second), 2);
  second = first;
  second.steps = first.steps + 1;
  EXPECT_EQ(refused_of_two(first, second), 2);
  second = first;
  second.data = OPBOUND_SOURCE_DIR "/suites/prompts/corner_cases.toml";
  EXPECT_EQ(refused_of_two(first, second), 2);
}

TEST(Train, MicroBatchesThatDoNotDivideAreRefusedWhereLayersAreGathered) {
  TrainingSpec s = tiny_training("fp32-reproducible");
  s.model.layers = 4;
  s.micro_batches = 5;
  const std::uint64_t one = final_hash(s);
  EXPECT_EQ(hash_on(2, s), one);
  s.sharding = Sharding::fsdp;
  EXPECT_EQ(refused_of_two(s, s), 2);
}

TEST(Train, AnyNumberOfRanksAddsInAnyOrder) {
  TrainingSpec s = tiny_training("fp32");
  s.micro_batches = 5;
  EXPECT_NE(hash_on(3, s), 0U);
}

TEST(Train, AStepThatOverflowsIsSkippedAndTheScaleFalls) {
  TrainingSpec s = tiny_training("fp16-scaled");
  s.policy.initial_scale = 0x1p40;
  Trainer trainer(s, {});
  trainer.set_initial_weights();
  std::vector<Tensor> before = trainer.weights();
  const StepResult first = trainer.step();
  EXPECT_TRUE(first.is_skipped);
  std::vector<Tensor> after = trainer.weights();
  EXPECT_EQ(hash_of(std::span(after)), hash_of(std::span(before)));
  EXPECT_EQ(trainer.step().loss_scale, 0x1p39);
}

TEST(Train, AGradientThatIsNotFiniteIsNamedAndChangesNothing) {
  TrainingSpec s = tiny_training("fp32");
  Trainer trainer(s, {});
  trainer.set_initial_weights();
  std::vector<Tensor> weights = trainer.weights();
  weights[2].set(1, std::numeric_limits<double>::infinity());
  trainer.set_weights(weights);
  weights = trainer.weights();
  const std::uint64_t before = hash_of(std::span(weights));
  try {
    trainer.step();
    FAIL();
  } catch (const ProviderFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("step 0: the gradient of "), std::string::npos)
        << failure.what();
  }
  weights = trainer.weights();
  EXPECT_EQ(hash_of(std::span(weights)), before);
}

}  // namespace
}  // namespace opbound::train
