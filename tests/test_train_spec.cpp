// What a training run is told: its file, its model, its learning rates.
#include "distributed/train/training_spec.hpp"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <map>
#include <set>

#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

class SpecTest : public TemporaryFolder {
 protected:
  TrainingSpec read(const std::string& text) const { return read_training(put("own.toml", text)); }
  std::string refusal(const std::string& text) const {
    return refused([&] { read(text); });
  }
  /// Of a file that is right but for these lines.
  std::string refusal_of(const std::string& lines) const {
    return refusal("model = \"nano\"\npolicy = \"fp32\"\n" + lines);
  }
  std::string refusal_of_model(const std::string& lines) const {
    return refusal("policy = \"fp32\"\n[model]\n" + lines);
  }
};

const std::filesystem::path ready = std::filesystem::path(OPBOUND_SOURCE_DIR) / "suites/training";

// ---- files

TEST(ReadyTraining, EveryFileIsRead) {
  std::set<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(ready)) {
    if (entry.path().extension() != ".toml") continue;
    const TrainingSpec s = read_training(entry.path());
    EXPECT_EQ(s.model.name, entry.path().stem());
    EXPECT_EQ(s.data, "auto");
    models.insert(s.model.name);
  }
  EXPECT_EQ(models, (std::set<std::string>{"nano", "small", "deep24", "gpt2-124m"}));
}

TEST(ReadyTraining, NanoIsTheFirstRun) {
  const TrainingSpec s = read_training(ready / "nano.toml");
  EXPECT_EQ(s.policy.name, "fp32-reproducible");
  EXPECT_TRUE(s.policy.reproducible_sum);
  EXPECT_EQ(s.sharding, Sharding::dp);
  EXPECT_EQ(s.micro_batches % 4, 0) << "1, 2 and 4 ranks share them";
}

TEST_F(SpecTest, AFileWithoutMoreHasDefaults) {
  const TrainingSpec s = read("model = \"nano\"\npolicy = \"bf16\"\n");
  const TrainingSpec d;
  EXPECT_EQ(s.file, path("own.toml"));
  EXPECT_EQ(s.policy.name, "bf16");
  EXPECT_EQ(s.data, "auto");
  EXPECT_EQ(s.seed, d.seed);
  EXPECT_EQ(s.steps, d.steps);
  EXPECT_EQ(s.gather, fp32);
  EXPECT_TRUE(s.checkpoint_folder.empty());
}

TEST_F(SpecTest, EveryKeyIsRead) {
  put("mine.toml", "[[rule]]\nprecision = \"bf16\"\n");
  const TrainingSpec s = read(
      "policy = \"mine.toml\"\nsharding = \"fsdp\"\ngather = \"bf16\"\ndata = \"a/b.txt\"\n"
      "seed = 7\nsteps = 11\nmicro_batches = 3\nsequences = 5\ncheckpoint_every = 4\n"
      "checkpoint_folder = \"there\"\n"
      "[schedule]\nlr = 1\nwarmup_steps = 2\nfinal_share = 0.5\n"
      "[optimizer]\nbeta1 = 0.5\nbeta2 = 0.25\neps = 1e-3\nweight_decay = 0\nclip_norm = 2\n"
      "clip_error_on_nonfinite = false\n"
      "[model]\nname = \"mine\"\nlayers = 3\nheads = 2\nwidth = 12\nhidden = 20\ncontext = 8\n"
      "vocabulary = 300\npositions = \"rotary\"\nnorm = \"rms_norm\"\nactivation = \"swiglu\"\n"
      "biases = false\ntied_head = false\nnorm_eps = 1e-6\n");
  EXPECT_EQ(s.policy.name, "mine");
  EXPECT_EQ(s.sharding, Sharding::fsdp);
  EXPECT_EQ(s.gather, bf16);
  EXPECT_EQ(s.data, path("a/b.txt"));
  EXPECT_EQ(s.seed, 7U);
  EXPECT_EQ(s.steps, 11);
  EXPECT_EQ(s.micro_batches, 3);
  EXPECT_EQ(s.sequences, 5);
  EXPECT_EQ(s.checkpoint_every, 4);
  EXPECT_EQ(s.checkpoint_folder, "there");
  EXPECT_EQ(s.schedule.lr, 1);
  EXPECT_EQ(s.schedule.warmup_steps, 2);
  EXPECT_EQ(s.schedule.final_share, 0.5);
  EXPECT_EQ(s.optimizer.beta1, 0.5);
  EXPECT_EQ(s.optimizer.beta2, 0.25);
  EXPECT_EQ(s.optimizer.eps, 1e-3);
  EXPECT_EQ(s.optimizer.weight_decay, 0);
  EXPECT_EQ(s.optimizer.clip_norm, 2);
  EXPECT_FALSE(s.optimizer.clip_error_on_nonfinite);
  EXPECT_EQ(s.model.name, "mine");
  EXPECT_EQ(s.model.layers, 3);
  EXPECT_EQ(s.model.heads, 2);
  EXPECT_EQ(s.model.width, 12);
  EXPECT_EQ(s.model.hidden, 20);
  EXPECT_EQ(s.model.context, 8);
  EXPECT_EQ(s.model.vocabulary, 300);
  EXPECT_EQ(s.model.positions, Positions::rotary);
  EXPECT_EQ(s.model.norm, Norm::rms_norm);
  EXPECT_EQ(s.model.activation, Activation::swiglu);
  EXPECT_FALSE(s.model.biases);
  EXPECT_FALSE(s.model.tied_head);
  EXPECT_EQ(s.model.norm_eps, 1e-6);
}

TEST_F(SpecTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("policy = \"fp32\""), "own.toml:1: training: no model, expected key model");
  EXPECT_EQ(refusal("model = \"nano\""), "own.toml:1: training: no policy, expected key policy");
  EXPECT_EQ(refusal_of("step = 3"),
            "own.toml:3: unknown key 'step' (steps?), expected one of model, policy, sharding, "
            "gather, data, seed, steps, schedule, optimizer, micro_batches, sequences, "
            "checkpoint_every, checkpoint_folder");
  EXPECT_EQ(refusal_of("steps = 0"),
            "own.toml:3: steps: 0, expected a whole number from 1 to 1099511627776");
  EXPECT_EQ(refusal_of("steps = 1.5"),
            "own.toml:3: steps: a number, expected a whole number from 1 to 1099511627776");
  EXPECT_EQ(refusal_of("sequences = 1048577"),
            "own.toml:3: sequences: 1048577, expected a whole number from 1 to 1048576");
  EXPECT_EQ(refusal_of("sharding = \"zero3\""),
            "own.toml:3: sharding: unknown sharding 'zero3', expected one of dp, fsdp, "
            "zero3-fp32, zero3-offload");
  EXPECT_EQ(refusal_of("gather = \"bf16\""),
            "own.toml:3: gather: without effect, expected sharding = \"fsdp\" beside it");
  EXPECT_EQ(refusal_of("data = \"\""), "own.toml:3: data: no name, expected auto, or a text file");
  EXPECT_EQ(refusal_of("[schedule]\nlr = -1"),
            "own.toml:4: lr: a number out of range, expected a number from 0 on");
  EXPECT_EQ(refusal_of("[schedule]\nfinal_share = 1.5"),
            "own.toml:4: final_share: a number out of range, expected a share from 0 to 1");
  for (const char* wrong : {"beta1 = 1", "beta2 = nan", "eps = -1e-9", "weight_decay = inf",
                            "clip_norm = \"1\"", "clip_error_on_nonfinite = 1", "gamma = 2"})
    EXPECT_TRUE(refusal_of(std::string("[optimizer]\n") + wrong).starts_with("own.toml:4: "))
        << wrong;
}

TEST_F(SpecTest, RefusesPoliciesAndModelsThatDoNotGoTogether) {
  EXPECT_TRUE(refusal("model = \"nano\"\npolicy = \"fp31\"")
                  .starts_with("own.toml:2: policy: unknown policy 'fp31' (fp32?)"));
  EXPECT_TRUE(refusal("model = \"nanno\"\npolicy = \"fp32\"")
                  .starts_with("own.toml:1: model: unknown model 'nanno' (nano?)"));
  put("deep.toml", "[[rule]]\nlayers = 2\nprecision = \"fp64\"\n");
  EXPECT_EQ(refusal("model = \"nano\"\npolicy = \"deep.toml\""),
            "own.toml: deep.toml:1: layer 2, expected a layer from 0 to 1 of model nano");
}

TEST_F(SpecTest, RefusesModelsThatDoNotFitTogether) {
  EXPECT_EQ(refusal_of_model("layers = 2"), "");
  EXPECT_EQ(refusal_of_model("widht = 2").substr(0, 41),
            "own.toml:3: unknown key 'widht' (width?),");
  EXPECT_EQ(refusal_of_model("layers = 5000"),
            "own.toml: layers: 5000, expected a whole number from 1 to 4096");
  EXPECT_EQ(refusal_of_model("heads = 3"),
            "own.toml: width: 64, expected a multiple of 3, the heads");
  EXPECT_EQ(refusal_of_model("width = 12\npositions = \"rotary\""),
            "own.toml: width: 12, expected a multiple of 8, twice the heads of rotary positions");
  EXPECT_EQ(refusal_of_model("vocabulary = 255"),
            "own.toml: vocabulary: 255, expected a whole number from 256 to 1048576");
  EXPECT_EQ(refusal_of_model("norm = \"batch\"").substr(0, 40),
            "own.toml:3: norm: unknown norm 'batch', ");
}

// ---- models

TEST(Model, Gpt2HasItsPublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(model_named("gpt2-124m")), 124439808);
}

TEST(Model, ParametersHaveGpt2sNamesShapesAndInitialValues) {
  const std::vector<ParameterSpec> all = parameters_of(model_named("gpt2-124m"));
  ASSERT_EQ(all.size(), 2U + 12 * 12 + 2);
  const double projection = 0.02 / std::sqrt(24.0);
  const std::vector<ParameterSpec> expected{
      {"wte.weight", {50257, 768}, "embedding", -1, 0, 0.02, true},
      {"wpe.weight", {1024, 768}, "embedding", -1, 0, 0.01, true},
      {"h.0.ln_1.weight", {768}, "layer_norm", 0, 1, 0, false},
      {"h.0.ln_1.bias", {768}, "layer_norm", 0, 0, 0, false},
      {"h.0.attn.c_attn.weight", {768, 2304}, "matmul", 0, 0, 0.02, true},
      {"h.0.attn.c_attn.bias", {2304}, "matmul", 0, 0, 0, false},
      {"h.0.attn.c_proj.weight", {768, 768}, "matmul", 0, 0, projection, true},
      {"h.0.attn.c_proj.bias", {768}, "matmul", 0, 0, 0, false},
      {"h.0.ln_2.weight", {768}, "layer_norm", 0, 1, 0, false},
      {"h.0.ln_2.bias", {768}, "layer_norm", 0, 0, 0, false},
      {"h.0.mlp.c_fc.weight", {768, 3072}, "mlp:matmul", 0, 0, 0.02, true},
      {"h.0.mlp.c_fc.bias", {3072}, "mlp:matmul", 0, 0, 0, false},
      {"h.0.mlp.c_proj.weight", {3072, 768}, "mlp:matmul", 0, 0, projection, true},
      {"h.0.mlp.c_proj.bias", {768}, "mlp:matmul", 0, 0, 0, false}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(all[i].name, expected[i].name);
    EXPECT_EQ(all[i], expected[i]) << all[i].name;
  }
  EXPECT_EQ(all[all.size() - 2].name, "ln_f.weight");
  EXPECT_EQ(all.back().name, "ln_f.bias");
}

TEST(Model, OtherFormsLeaveOutWhatTheyHaveNot) {
  ModelSpec m = model_named("nano");
  m.positions = Positions::rotary;
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.tied_head = false;
  std::map<std::string, ParameterSpec> all;
  for (const ParameterSpec& p : parameters_of(m)) all[p.name] = p;
  EXPECT_EQ(all.at("h.1.mlp.c_fc.weight").shape, (Shape{64, 512}));
  EXPECT_EQ(all.at("h.1.ln_1.weight").op, "rms_norm");
  EXPECT_EQ(all.at("lm_head.weight").op, "head");
  EXPECT_FALSE(all.contains("wpe.weight"));
  EXPECT_FALSE(all.contains("h.0.ln_1.bias"));
  EXPECT_TRUE(all.contains("h.0.mlp.c_fc.bias"));
  EXPECT_TRUE(all.contains("lm_head.weight"));
  m.biases = false;
  for (const ParameterSpec& p : parameters_of(m)) EXPECT_FALSE(p.name.ends_with(".bias")) << p.name;
}

TEST(Model, ReadyOnesAreValid) {
  for (const std::string_view name : model_names()) {
    const ModelSpec m = model_named(name);
    EXPECT_NO_THROW(require_valid(m, "here")) << name;
    EXPECT_EQ(m.hidden, 4 * m.width) << name;
  }
  EXPECT_THROW(model_named("gpt2"), InputError);
}

// ---- learning rates

TEST(LearningRate, GrowsLinearlyAndFallsAsACosine) {
  const Schedule s{0.5, 4, 0.25};
  EXPECT_EQ(learning_rate(s, 0, 13), 0.125);
  EXPECT_EQ(learning_rate(s, 1, 13), 0.25);
  EXPECT_EQ(learning_rate(s, 3, 13), 0.5);
  EXPECT_EQ(learning_rate(s, 4, 13), 0.5);
  EXPECT_EQ(learning_rate(s, 12, 13), 0.125);
  EXPECT_EQ(learning_rate(s, 100, 13), 0.125) << "beyond the last step";
  for (std::int64_t step = 5; step < 13; ++step)
    EXPECT_LT(learning_rate(s, step, 13), learning_rate(s, step - 1, 13)) << step;
}

TEST(LearningRate, IsConstantWhereNothingIsSaid) {
  const Schedule s{3e-4, 0, 1};
  for (const std::int64_t step : {0, 1, 50, 99}) EXPECT_EQ(learning_rate(s, step, 100), 3e-4);
}

TEST(LearningRate, ARunAsShortAsItsWarmUpHasNoFall) {
  const Schedule s{1, 4, 0.5};
  EXPECT_EQ(learning_rate(s, 2, 3), 0.75);
  EXPECT_EQ(learning_rate(s, 4, 5), 1);
  EXPECT_EQ(learning_rate({1, 0, 0.5}, 0, 1), 1);
}

// With u = 2^-53: the argument errs by 2.4 u of at most pi (a quotient, pi, a product), the cosine
// by 0.8 u more, the sum by u, and half of all that is below 2^-50.
TEST(LearningRate, FollowsTheFormulaInMpfr) {
  const Schedule s{1, 10, 0};
  const std::int64_t steps = 111;
  for (std::int64_t step = 10; step < steps; ++step) {
    mpfr_t x;
    mpfr_init2(x, 200);
    mpfr_const_pi(x, MPFR_RNDN);
    mpfr_mul_si(x, x, step - 10, MPFR_RNDN);
    mpfr_div_si(x, x, 100, MPFR_RNDN);
    mpfr_cos(x, x, MPFR_RNDN);
    mpfr_add_si(x, x, 1, MPFR_RNDN);
    mpfr_div_si(x, x, 2, MPFR_RNDN);
    mpfr_sub_d(x, x, learning_rate(s, step, steps), MPFR_RNDN);
    EXPECT_LE(std::abs(mpfr_get_d(x, MPFR_RNDA)), 0x1p-50) << step;
    mpfr_clear(x);
  }
}

}  // namespace
}  // namespace opbound::train
