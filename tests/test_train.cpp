// The training loop: bits that do not hang on checkpointing, sharding or a resume, gradients that
// agree with fp64 and with finite differences.
#include <gtest/gtest.h>

#include <cmath>

#include "distributed/train/trainer.hpp"

namespace opbound::train {
namespace {

TrainingSpec tiny(const std::string& policy) {
  TrainingSpec s;
  s.model.name = "tiny";
  s.model.layers = 2;
  s.model.heads = 2;
  s.model.width = 16;
  s.model.hidden = 32;
  s.model.context = 12;
  s.policy = read_policy(policy);
  s.data = OPBOUND_SOURCE_DIR "/README.md";
  s.steps = 3;
  s.micro_batches = 4;
  s.sequences = 2;
  return s;
}

std::uint64_t hash_of(const TrainingSpec& spec) { return train(spec, {}).hash; }

TEST(Train, LossFallsAndTheSameRunHasTheSameBits) {
  TrainingSpec s = tiny("fp32-reproducible");
  s.steps = 30;
  s.schedule.lr = 1e-2;
  const TrainResult a = train(s, {}), b = train(s, {});
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_LT(a.last_loss, a.first_loss - 0.5);
  EXPECT_NEAR(a.first_loss, std::log(256.0), 0.2);
}

TEST(Train, ComputingAgainWhatWasNotKeptChangesNoBit) {
  TrainingSpec s = tiny("fp32-reproducible");
  s.policy.dropout = 0.1;
  const std::uint64_t kept = hash_of(s);
  s.policy.checkpointing = Checkpointing::attention;
  EXPECT_EQ(hash_of(s), kept);
  s.policy.checkpointing = Checkpointing::all;
  EXPECT_EQ(hash_of(s), kept);
  s.policy.stored_input = bf16;
  EXPECT_NE(hash_of(s), kept) << "inputs that are stored in 16 bits are others";
}

double largest(const Tensor& t) {
  double most = 0;
  for (const double x : t.values()) most = std::max(most, std::abs(x));
  return most;
}

TEST(Train, GradientsInFp64AreDifferenceQuotients) {
  TrainingSpec s = tiny("fp64");
  Trainer trainer(s, {});
  std::vector<Tensor> gradients, weights = trainer.weights();
  trainer.gradients(1, gradients);
  std::vector<Tensor> unused;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    // Along a direction of +-1 in every element; the quotient errs by h^2 times a third derivative.
    constexpr double h = 1e-5;
    double expected = 0;
    std::vector<Tensor> ahead = weights, behind = weights;
    for (std::int64_t i = 0; i < weights[p].count(); ++i) {
      const double sign = (i * 7 + i / 3) % 2 == 0 ? 1 : -1;
      expected += sign * gradients[p].at(i);
      ahead[p].set(i, weights[p].at(i) + sign * h);
      behind[p].set(i, weights[p].at(i) - sign * h);
    }
    trainer.set_weights(ahead);
    const double above = trainer.gradients(1, unused);
    trainer.set_weights(behind);
    const double below = trainer.gradients(1, unused);
    EXPECT_GT(largest(gradients[p]), 0) << p;
    EXPECT_NEAR((above - below) / (2 * h), expected, 1e-6 * (1 + std::abs(expected))) << p;
  }
}

}  // namespace
}  // namespace opbound::train
