// Policies of a training run: what the ready ones say, and one refusal with its line for every
// mistake in a file.
#include "distributed/train/policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "distributed/train/policy_check.hpp"
#include "reports/error.hpp"
#include "reports/record.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

class PolicyTest : public TemporaryFolder {
 protected:
  Policy read(const std::string& text) const { return read_policy(put("own.toml", text)); }
  /// The message without the folder; empty if nothing is refused.
  std::string refusal(const std::string& text) const {
    return refused([&] { read(text); });
  }
  /// Of a file with one rule; its table begins at line 1.
  std::string refusal_of_rule(const std::string& lines) const {
    return refusal("[[rule]]\n" + lines);
  }
};

std::string text_of(const OpRule& rule) {
  std::string text = name_of(rule.precision);
  if (rule.gradient) text += " d:" + std::string(name_of(*rule.gradient));
  if (!rule.variant.empty()) text += " " + rule.variant;
  if (!rule.provider.empty()) text += " by " + rule.provider;
  for (const auto& [name, value] : rule.attributes)
    text += " " + name + "=" + opbound::text_of(value);
  return text;
}

// ---- ready policies

TEST(ReadyPolicies, AreThese) {
  const std::vector<std::string> expected{
      "bf16",          "bf16-fast",     "bf16-mlp32",  "emulated-a100", "emulated-b200",
      "emulated-h100", "emulated-v100", "fp16-scaled", "fp32",          "fp32-reproducible",
      "fp64",          "fp8",           "tf32"};
  EXPECT_EQ(ready_policies(), expected);
  std::vector<std::string> own = expected;
  std::erase(own, "bf16-fast");
  EXPECT_EQ(own_policies(), own);
  for (const std::string& name : ready_policies()) EXPECT_EQ(read_policy(name).name, name);
}

TEST(ReadyPolicies, GoWithEveryModel) {
  for (const std::string& name : ready_policies())
    for (const std::string_view model : model_names())
      EXPECT_NO_THROW(require_fits(read_policy(name), model_named(model), "here")) << name;
}

TEST(ReadyPolicies, SayInWhichFormats) {
  const std::string fp16 = "fp16:fp32:fp16", bf16 = "bf16:fp32:bf16";
  const std::string fp16_loss = "fp16:fp32:fp32", bf16_loss = "bf16:fp32:fp32";
  const std::vector<std::array<std::string, 7>> all{
      {"fp64", "fp64", "fp64", "fp64", "fp64", "fp64", "fp64"},
      {"fp32", "fp32", "fp32", "fp32", "fp32", "fp32", "fp32"},
      {"fp32-reproducible", "fp32 by own", "fp32 by own", "fp32 by own", "fp32 by own",
       "fp32 by own", "fp32"},
      {"tf32", "fp32 hopper", "fp32 hopper", "fp32 hopper", "fp32", "fp32", "fp32"},
      {"bf16", bf16, bf16, bf16, bf16, bf16_loss, "fp32"},
      {"bf16-mlp32", bf16, bf16, "fp32", bf16, bf16_loss, "fp32"},
      {"fp16-scaled", fp16, fp16, fp16, fp16, fp16_loss, "fp32"},
      {"fp8", "e4m3:fp32:bf16 d:e5m2", bf16 + " d:bf16", "e4m3:fp32:bf16 d:e5m2", bf16, bf16_loss,
       "fp32"},
      {"emulated-v100", fp16 + " volta", fp16 + " volta", fp16 + " volta", fp16, fp16_loss, "fp32"},
      {"emulated-a100", bf16 + " ampere", bf16 + " ampere", bf16 + " ampere", bf16, bf16_loss,
       "fp32"},
      {"emulated-h100", bf16 + " hopper", bf16 + " hopper", bf16 + " hopper", bf16, bf16_loss,
       "fp32"},
      {"emulated-b200", bf16 + " blackwell", bf16 + " blackwell", bf16 + " blackwell", bf16,
       bf16_loss, "fp32"}};
  EXPECT_EQ(all.size(), own_policies().size());
  for (const auto& row : all) {
    const Policy p = read_policy(row[0]);
    const std::array<std::pair<const char*, int>, 6> parts{{{"matmul", 0},
                                                            {"head", -1},
                                                            {"mlp:matmul", 1},
                                                            {"layer_norm", 0},
                                                            {"cross_entropy", -1},
                                                            {"adamw", -1}}};
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_EQ(text_of(p.rule(parts[i].first, parts[i].second)), row[i + 1])
          << row[0] << " " << parts[i].first;
  }
}

/// For speed: in the same formats, of which attention's are what cuDNN's graphs have; casts are
/// nobody's but by a rule that names them.
TEST(ReadyPolicies, TheFastOneIsBf16ByOthers) {
  const Policy fast = read_policy("bf16-fast"), own = read_policy("bf16");
  const std::map<std::string, std::string> by{
      {"matmul", "cublas"},   {"head", "cublas"},        {"mlp:matmul", "cublas"},
      {"attention", "cudnn"}, {"cast", "fast"},          {"embedding", "fast"},
      {"residual", "fast"},   {"layer_norm", "fast"},    {"mlp:gelu", "fast"},
      {"adamw", "fast"},      {"cross_entropy", "fast"}, {"global_norm", "fast"},
      {"clip", "fast"},       {"unscale", ""},           {"rms_norm", ""}};
  for (const auto& [part, provider] : by) {
    EXPECT_EQ(fast.rule(part, 0).provider, provider) << part;
    EXPECT_EQ(fast.rule(part, 0).precision, own.rule(part, 0).precision) << part;
    EXPECT_EQ(own.rule(part, 0).provider, "") << part;
  }
  EXPECT_EQ(fast.rule("attention", 0).variant, "online_exp2");
}

TEST(ReadyPolicies, SayWhatIsKept) {
  for (const std::string& name : ready_policies()) {
    const Policy p = read_policy(name);
    const Format wide = name == "fp64" ? fp64 : fp32;
    for (const Format& f : {p.master, p.gradient, p.reduction, p.stored_input})
      EXPECT_EQ(f, wide) << name;
    EXPECT_EQ(p.reproducible_sum, name == "fp32-reproducible") << name;
    const bool scales = name == "fp16-scaled" || name == "fp8" || name == "emulated-v100";
    EXPECT_EQ(p.loss_scale == LossScale::dynamic, scales) << name;
    EXPECT_EQ(p.dropout, 0) << name;
    EXPECT_FALSE(p.stochastic) << name;
  }
  const Policy scaled = read_policy("fp16-scaled");
  EXPECT_EQ(scaled.initial_scale, 65536);
  EXPECT_EQ(scaled.growth_interval, 2000);
}

TEST(ReadyPolicies, AnUnknownOneIsRefusedWithTheNearest) {
  try {
    read_policy("bf61");
    FAIL();
  } catch (const InputError& e) {
    const std::string message = e.what();
    EXPECT_TRUE(message.starts_with("unknown policy 'bf61' (bf16?), expected one of bf16,"))
        << message;
  }
}

TEST(ReadyPolicies, AWordWithADotIsAFile) {
  try {
    read_policy("bf16.toml");
    FAIL();
  } catch (const InputError& e) {
    const std::string message = e.what();
    EXPECT_TRUE(message.starts_with("no policy's file 'bf16.toml', expected one of bf16,"))
        << message;
  }
}

// ---- rules

TEST_F(PolicyTest, WithoutAFileEverythingIsFp32) {
  const Policy p;
  for (const std::string_view op : ops_of_model()) EXPECT_EQ(p.rule(op, 0), OpRule{}) << op;
  EXPECT_EQ(p.rule("head", -1), OpRule{});
  EXPECT_EQ(p.rule("adamw", -1), OpRule{});
}

TEST_F(PolicyTest, LaterRulesWinAndLeaveWhatTheyDoNotName) {
  const Policy p = read(
      "[[rule]]\nop = \"matmul\"\nprecision = \"bf16:fp32:bf16\"\nvariant = \"split_k\"\n"
      "attributes = {splits = 2}\n"
      "[[rule]]\nop = \"matmul\"\nlayers = [1]\nattributes = {splits = 8}\n"
      "[[rule]]\nop = \"head\"\nprecision = \"fp32\"\nprovider = \"cublas\"\n");
  EXPECT_EQ(text_of(p.rule("matmul", 0)), "bf16:fp32:bf16 split_k splits=2");
  EXPECT_EQ(text_of(p.rule("mlp:matmul", 0)), "bf16:fp32:bf16 split_k splits=2");
  EXPECT_EQ(text_of(p.rule("matmul", 1)), "bf16:fp32:bf16 split_k splits=8");
  EXPECT_EQ(text_of(p.rule("head", -1)), "fp32 split_k by cublas splits=2");
  EXPECT_EQ(text_of(p.rule("gelu", 1)), "fp32");
}

TEST_F(PolicyTest, CastsAreOthersOnlyByARuleOfTheirOwn) {
  EXPECT_EQ(read("[[rule]]\nprovider = \"torch\"\n").rule("cast", 0).provider, "");
  const Policy p = read("[[rule]]\nop = \"cast\"\nlayers = 1\nprovider = \"torch\"\n");
  EXPECT_EQ(p.rule("cast", 0).provider, "");
  EXPECT_EQ(p.rule("cast", 1).provider, "torch");
  EXPECT_EQ(p.rule("gelu", 1).provider, "");
  EXPECT_EQ(refusal("[[rule]]\nop = \"cast\"\nprecision = \"bf16\"\n"),
            "own.toml:3: precision: of a cast, which follows from the ops beside it, expected "
            "provider only");
}

TEST_F(PolicyTest, AnMlpsOpsAreItsOwn) {
  const Policy p = read(
      "[[rule]]\nop = \"mlp\"\nprecision = \"bf16\"\n"
      "[[rule]]\nop = \"mlp:gelu\"\nlayers = 0\nprecision = \"fp32\"\n");
  EXPECT_EQ(text_of(p.rule("mlp:matmul", 0)), "bf16");
  EXPECT_EQ(text_of(p.rule("mlp:gelu", 0)), "fp32");
  EXPECT_EQ(text_of(p.rule("mlp:gelu", 1)), "bf16");
  EXPECT_EQ(text_of(p.rule("matmul", 0)), "fp32");
  EXPECT_EQ(text_of(p.rule("gelu", 0)), "fp32");
}

TEST_F(PolicyTest, TheUpdateFollowsTheGradientsFormatAndItsOwnRules) {
  const Policy p = read(
      "gradient = \"bf16\"\n[[rule]]\nprecision = \"fp64\"\n"
      "[[rule]]\nop = \"clip\"\nvariant = \"reciprocal\"\n");
  for (const std::string_view op : ops_of_update())
    EXPECT_EQ(name_of(p.rule(op, -1).precision), "bf16:fp32:bf16") << op;
  EXPECT_EQ(p.rule("clip", -1).variant, "reciprocal");
  EXPECT_EQ(name_of(read("master = \"fp64\"").rule("adamw", -1).precision), "fp32:fp64:fp32");
}

TEST_F(PolicyTest, GradientsOfAStreamAreAddedAsResidualsAre) {
  const Policy p = read("[[rule]]\nop = \"residual\"\nvariant = \"fused\"\n");
  EXPECT_EQ(p.rule("gradient_sum", 0).variant, "fused");
}

TEST_F(PolicyTest, APolicyBuildsOnAnother) {
  put("first.toml", "dropout = 0.25\n[[rule]]\nprecision = \"bf16\"\n");
  const Policy p = read(
      "base = \"first.toml\"\ncheckpointing = \"all\"\n"
      "[[rule]]\nop = \"gelu\"\nprecision = \"fp16\"\n");
  EXPECT_EQ(p.name, "own");
  EXPECT_EQ(p.dropout, 0.25);
  EXPECT_EQ(p.checkpointing, Checkpointing::all);
  EXPECT_EQ(text_of(p.rule("matmul", 0)), "bf16");
  EXPECT_EQ(text_of(p.rule("gelu", 0)), "fp16");
  EXPECT_EQ(text_of(read("base = \"bf16\"").rule("gelu", 0)), "bf16:fp32:bf16");
}

TEST_F(PolicyTest, PureBf16WithStochasticRounding) {
  const Policy p = read("master = \"bf16\"\nstochastic = true\n[[rule]]\nprecision = \"bf16\"\n");
  EXPECT_EQ(p.master, bf16);
  EXPECT_TRUE(p.stochastic);
}

// ---- refusals

TEST_F(PolicyTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("mastr = \"fp32\""),
            "own.toml:1: unknown key 'mastr' (master?), expected one of base, master, stochastic, "
            "gradient, reduction, reproducible_sum, loss_scale, dropout, checkpointing, "
            "stored_input, rule");
  EXPECT_EQ(refusal("\nmaster = \"tf32\""),
            "own.toml:2: master: unknown format 'tf32', expected one of fp64, fp32, bf16, fp16");
  EXPECT_EQ(refusal("checkpointing = true"),
            "own.toml:1: checkpointing: true or false, expected one of none, attention, all");
  EXPECT_EQ(refusal("reproducible_sum = 1"),
            "own.toml:1: reproducible_sum: a whole number, expected true or false");
  EXPECT_EQ(refusal("dropout = 1.0"),
            "own.toml:1: dropout: a number out of range, expected a share from 0 on, below 1");
  EXPECT_EQ(refusal("dropout = nan"),
            "own.toml:1: dropout: a number out of range, expected a share from 0 on, below 1");
  EXPECT_EQ(refusal("stochastic = true"),
            "own.toml:1: stochastic: stochastic rounding of fp32, expected a master of bf16 or "
            "fp16, where a store rounds");
  EXPECT_EQ(refusal("rule = 3"), "own.toml:1: rule: a whole number, expected [[rule]] tables");
  EXPECT_NE(refusal("[[,"), "");
}

TEST_F(PolicyTest, RefusesBasesThatDoNotEnd) {
  EXPECT_EQ(refusal("base = \"own.toml\""),
            "own.toml:1: base: the 8th policy on which one builds, expected fewer, and none that "
            "builds on itself");
  EXPECT_TRUE(refusal("\nbase = \"fp31\"").starts_with("own.toml:2: base: unknown policy"));
  EXPECT_NE(refusal("base = \"none.toml\"").find("none.toml"), std::string::npos);
}

TEST_F(PolicyTest, RefusesLossScalesThatCannotWork) {
  EXPECT_EQ(refusal("[loss_scale]\ninitial = 1"),
            "own.toml:1: loss_scale: no kind, expected key kind");
  EXPECT_EQ(refusal("loss_scale = {kind = \"fixed\", growth_interval = 3}"),
            "own.toml:1: growth_interval: without effect on a loss scale of this kind, expected "
            "kind = \"dynamic\"");
  EXPECT_EQ(refusal("loss_scale = {kind = \"none\", initial = 3}"),
            "own.toml:1: initial: without effect on a loss scale of this kind, expected kind = "
            "\"dynamic\"");
  for (const char* wrong : {"initial = 0", "initial = inf", "growth_factor = 1",
                            "backoff_factor = 1.0", "growth_interval = 0"})
    EXPECT_NE(refusal(std::string("[loss_scale]\nkind = \"dynamic\"\n") + wrong), "") << wrong;
}

TEST_F(PolicyTest, RefusesRulesOfNothing) {
  EXPECT_TRUE(refusal_of_rule("op = \"matmull\"")
                  .starts_with("own.toml:2: op: unknown op 'matmull' (matmul?), expected one of "
                               "head, mlp, embedding,"));
  EXPECT_TRUE(refusal_of_rule("op = \"softmax\"").starts_with("own.toml:2: op: unknown op"));
  EXPECT_EQ(refusal_of_rule("variant = \"hopper\""),
            "own.toml:2: variant: of no single op, expected key op, the name of one");
  EXPECT_EQ(refusal_of_rule("op = \"mlp\"\nattributes = {splits = 2}"),
            "own.toml:3: attributes: of no single op, expected key op, the name of one");
  EXPECT_EQ(refusal_of_rule("op = \"gelu\"\nvariant = \"erf\""),
            "own.toml:3: variant: unknown variant 'erf' (erfc?), expected one of erfc, "
            "one_plus_erf, sigmoid, one_plus_tanh");
  EXPECT_EQ(refusal_of_rule("op = \"attention\"\nattributes = {scale = 2}"),
            "own.toml:3: unknown key 'scale', expected one of p_format, ds_format, row_term, tile");
  EXPECT_EQ(refusal_of_rule("op = \"attention\"\nattributes = {tile = \"a\"}"),
            "own.toml:3: tile: 'a', expected a whole number");
  EXPECT_EQ(refusal_of_rule("op = \"gelu\"\nattributes = {approximate = \"tanh\"}"),
            "own.toml:3: attributes: gelu has none that a policy decides, expected no attributes");
  EXPECT_EQ(refusal_of_rule("layers = [0, -1]"),
            "own.toml:2: layers: -1, expected layers from 0 on");
  EXPECT_EQ(
      refusal_of_rule("op = \"clip\"\nlayers = [0]"),
      "own.toml:3: layers: of clip, expected no layers: the update is of all of them at once");
  EXPECT_EQ(refusal_of_rule("op = \"adamw\"\nvariant = \"stochastic\""),
            "own.toml:3: variant: adamw's variant stochastic, expected stochastic = true, for the "
            "policy as a whole");
  EXPECT_EQ(refusal_of_rule("provider = \"\""),
            "own.toml:2: provider: no provider, expected own, or a plug-in's name or file");
}

TEST_F(PolicyTest, RefusesPrecisionsThatNobodyComputes) {
  EXPECT_EQ(refusal_of_rule("precision = \"fp33\""),
            "own.toml:2: precision: unknown precision 'fp33', expected storage:compute:output or "
            "one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2");
  EXPECT_EQ(refusal_of_rule("precision = \"bf16:tf32:bf16\""),
            "own.toml:2: precision: no kernel computes in tf32, expected one of fp64, fp32, bf16, "
            "fp16");
  EXPECT_EQ(refusal_of_rule("precision = \"e4m3:fp32:bf16\""),
            "own.toml:1: cross_entropy of e4m3, expected logits in fp64, fp32, bf16 or fp16");
  EXPECT_EQ(refusal_of_rule("op = \"matmul\"\nvariant = \"volta\"\nprecision = \"bf16:fp32:bf16\""),
            "own.toml:1: matmul's variant volta has no kernel in bf16:fp32:bf16, expected a "
            "precision or a variant that go together");
  EXPECT_TRUE(refusal_of_rule("op = \"matmul\"\nvariant = \"scales_first\"")
                  .starts_with("own.toml:1: matmul's variant scales_first with the attributes that "
                               "it gets, expected one of sequential, split_k, volta,"));
}

TEST_F(PolicyTest, ARuleThatBreaksAnEarlierOneIsTheOneThatIsNamed) {
  EXPECT_EQ(refusal("[[rule]]\nop = \"matmul\"\nvariant = \"hopper\"\n"
                    "[[rule]]\nop = \"head\"\nprecision = \"fp64\"\n"),
            "own.toml:4: matmul's variant hopper has no kernel in fp64, expected a precision or a "
            "variant that go together");
  EXPECT_EQ(refusal("[[rule]]\nop = \"matmul\"\nvariant = \"hopper\"\n"
                    "[[rule]]\nlayers = [3]\nprecision = \"fp64\"\n"),
            "own.toml:4: matmul's variant hopper has no kernel in fp64, expected a precision or a "
            "variant that go together");
}

TEST_F(PolicyTest, RefusesWhatTheModelHasNot) {
  const auto refused = [&](const Policy& p, const ModelSpec& m) -> std::string {
    try {
      require_fits(p, m, "run.toml");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  const Policy layer = read("[[rule]]\nlayers = [1, 2]\nprecision = \"fp64\"\n");
  EXPECT_EQ(refused(layer, model_named("small")), "");
  EXPECT_EQ(
      refused(layer, model_named("nano")),
      "run.toml: " + path("own.toml") + ":1: layer 2, expected a layer from 0 to 1 of model nano");
  const Policy form = read("[[rule]]\nop = \"gelu\"\nvariant = \"erfc\"\n");
  ModelSpec m;
  EXPECT_EQ(refused(form, m), "");
  m.activation = Activation::gelu_tanh;
  EXPECT_EQ(refused(form, m),
            "run.toml: " + path("own.toml") +
                ":1: gelu's variant erfc with the attributes that it gets, expected one of "
                "sigmoid, one_plus_tanh");
  m.activation = Activation::swiglu;
  EXPECT_EQ(refused(form, m), "");
}

}  // namespace
}  // namespace opbound::train
