// A model that is asked: the same forward pass as in training, and the same bits whatever stands in
// the same call.
#include "distributed/train/language_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "distributed/train/data.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound::train {
namespace {

using Weights = std::map<std::string, Tensor>;

TrainingSpec tiny(const std::string& policy) {
  TrainingSpec s;
  s.model.name = "tiny";
  s.model.layers = 2, s.model.heads = 2, s.model.width = 16, s.model.hidden = 32;
  s.model.context = 12;
  s.policy = read_policy(policy);
  s.data = OPBOUND_SOURCE_DIR "/suites/training/text.txt";
  s.micro_batches = 2;
  s.sequences = 2;
  s.seed = 3;
  return s;
}

Weights weights_of(Trainer& trainer, const TrainingSpec& spec) {
  const std::vector<Tensor> all = trainer.weights();
  const std::vector<ParameterSpec> parameters = parameters_of(spec.model);
  Weights by_name;
  for (std::size_t p = 0; p < all.size(); ++p) by_name.emplace(parameters[p].name, all[p]);
  return by_name;
}

Weights initial(const TrainingSpec& spec) {
  Trainer trainer(spec, {});
  trainer.set_initial_weights();
  return weights_of(trainer, spec);
}

const std::vector<Tokens> sequences{
    {84, 104, 101}, {0}, {255, 255, 255, 255}, Tokens(12, 7), {9, 10}};

TEST(LanguageModel, NeitherTheCallNorWhatFollowsMatters) {
  for (const char* policy : {"fp32", "bf16"})
    for (const Positions positions : {Positions::learned, Positions::rotary}) {
      TrainingSpec spec = tiny(policy);
      spec.model.positions = positions;
      const Weights weights = initial(spec);
      const EvaluatedModel one = language_model("one", spec, weights, "cpu", 1);
      const EvaluatedModel four = language_model("four", spec, weights, "cpu", 4);
      const auto rows = one.logits(sequences, false);
      EXPECT_EQ(rows, four.logits(sequences, false)) << policy;
      const auto last = four.logits(sequences, true);
      for (std::size_t s = 0; s < sequences.size(); ++s) {
        ASSERT_EQ(rows[s].size(), 256 * sequences[s].size());
        EXPECT_EQ(last[s], std::vector(rows[s].end() - 256, rows[s].end())) << policy;
        Tokens longer = sequences[s];
        longer.resize(12, 65);
        const auto with_more = one.logits(std::vector<Tokens>{longer}, false)[0];
        EXPECT_EQ(rows[s], std::vector(with_more.begin(),
                                       with_more.begin() + static_cast<long>(rows[s].size())))
            << policy;
      }
    }
}

// The mean of -log p(target) from these logits is the loss of the trainer's micro-batch. Both in
// fp64: every row adds 256 exponentials and some 20 further roundings, of numbers below 2 ln 256.
TEST(LanguageModel, GivesTheLossOfTheTrainer) {
  const TrainingSpec spec = tiny("fp64");
  Trainer trainer(spec, {});
  trainer.set_initial_weights();
  std::vector<Tensor> gradients;
  const double loss = trainer.gradients(1, gradients);

  const Text text(spec.data);
  const Sampler sampler(text, {spec.model.context, 2, 2, spec.seed});
  Tensor tokens(Element::int64, {2, 12}), targets(tokens);
  sampler.fill(0, 1, tokens.view(), targets.view());
  std::vector<Tokens> asked(2);
  for (std::int64_t i = 0; i < 24; ++i)
    asked[static_cast<std::size_t>(i / 12)].push_back(tokens.index_at(i));
  const auto rows =
      language_model("m", spec, weights_of(trainer, spec), "cpu", 2).logits(asked, false);
  double sum = 0;
  for (std::int64_t i = 0; i < 24; ++i) {
    const double* row = rows[static_cast<std::size_t>(i / 12)].data() + i % 12 * 256;
    double total = 0;
    for (int v = 0; v < 256; ++v) total += std::exp(row[v]);
    sum += std::log(total) - row[targets.index_at(i)];
  }
  EXPECT_LE(std::abs(sum / 24 - loss),
            2 * (256 + 20 + 24) * 2 * std::log(256.0) * std::numeric_limits<double>::epsilon());
}

std::vector<Prompt> some_prompts() {
  return {{"a", {84, 104, 101, 32}}, {"b", Tokens(30, 97)}, {"c", {0, 255}}};
}

TEST(LanguageModel, EqualWeightsAreEqualAndAPlantedFaultIsSeen) {
  const TrainingSpec spec = tiny("fp32");
  Weights weights = initial(spec);
  const EvaluatedModel a = language_model("a", spec, weights);
  const EvaluatedModel again = language_model("again", spec, weights, "cpu", 3);
  const Evaluation same = evaluate(a, again, some_prompts(), {.most_tokens = 20});
  for (const PromptResult& p : same.prompts) {
    EXPECT_EQ(p.kl_sum_nats, 0);
    EXPECT_EQ(p.top1_equal, p.positions);
    EXPECT_EQ(p.length_a, p.length_b);
    EXPECT_EQ(p.equal_tokens, p.length_a);
  }
  weights.at("h.1.mlp.c_proj.weight").fill(0);
  const Evaluation faulty =
      evaluate(a, language_model("b", spec, weights), some_prompts(), {.most_tokens = 20});
  EXPECT_GT(totals_of(faulty.prompts).all.kl_sum_nats, 0);
}

// The policy is part of what is compared: the same weights, in fewer digits.
TEST(LanguageModel, APolicyIsComparedWithAnother) {
  const Weights weights = initial(tiny("fp32"));
  const EvaluatedModel fp64 = language_model("fp64", tiny("fp64"), weights);
  const EvaluatedModel fp32 = language_model("fp32", tiny("fp32"), weights);
  const EvaluatedModel bf16 = language_model("bf16", tiny("bf16"), weights);
  const auto kl = [&](const EvaluatedModel& m) {
    return totals_of(evaluate(fp64, m, some_prompts(), {.most_tokens = 1}).prompts).all.kl_sum_nats;
  };
  EXPECT_GT(kl(fp32), 0);
  EXPECT_GT(kl(bf16), kl(fp32));
}

TEST(LanguageModel, DropoutAndCheckpointingAreForTraining) {
  TrainingSpec spec = tiny("fp32");
  const Weights weights = initial(spec);
  const auto plain = language_model("plain", spec, weights).logits(sequences, true);
  spec.policy.dropout = 0.5;
  spec.policy.checkpointing = Checkpointing::all;
  spec.policy.stored_input = bf16;
  EXPECT_EQ(language_model("as trained", spec, weights).logits(sequences, true), plain);
}

}  // namespace
}  // namespace opbound::train
