// The suite reader: what a file's lists give, and one refusal with its line for every mistake.
#include "suites/suite.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "ops/philox.hpp"
#include "reports/error.hpp"
#include "suites/input.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

class SuiteTest : public TemporaryFolder {
 protected:
  Suite read(const std::string& text, const std::string& op = "gelu") const {
    return read_suite(put(op + ".toml", text));
  }
  /// The message without the folder; empty if nothing is refused.
  std::string refusal(const std::string& text, const std::string& op = "gelu") const {
    return refused([&] { read(text, op); });
  }
  /// The refusal of a complete case with one more line, or with one of its lines replaced.
  std::string refusal_of(const std::string& line) const {
    const std::string key = line.substr(0, line.find(' '));
    std::string text = "op = \"gelu\"\n[[case]]\n";
    for (const std::string given : {"precision = \"fp32\"", "shape = [8]"})
      if (!given.starts_with(key + " ")) text += given + "\n";
    return refusal(text + line + "\n");
  }
};

const std::string minimal = "op = \"gelu\"\n[[case]]\nprecision = \"fp32\"\nshape = [8]\n";

/// What tells the cases of a product apart: "forward bf16:fp32:bf16 erfc 8 normal 1".
std::string text_of(const CaseSpec& c) {
  std::string text(name_of(c.direction));
  text.append(" ").append(name_of(c.precision));
  text.append(" ").append(c.op->variants[static_cast<std::size_t>(c.variant)].name);
  text.append(" ").append(std::to_string(c.sizes[0]));
  for (const auto& [tensor, input] : c.inputs) text.append(" ").append(to_string(input));
  return text.append(" ").append(std::to_string(c.seed));
}

std::vector<std::string> texts_of(const Suite& suite) {
  std::vector<std::string> texts;
  for (const CaseSpec& c : suite.cases) texts.push_back(text_of(c));
  return texts;
}

// ---- what is read

TEST_F(SuiteTest, ACaseHasDefaults) {
  const Suite suite = read(minimal);
  ASSERT_EQ(suite.cases.size(), 1U);
  const CaseSpec& c = suite.cases[0];
  EXPECT_EQ(c.op, find_op("gelu"));
  EXPECT_EQ(suite.op, c.op);
  EXPECT_EQ(text_of(c), "forward fp32 erfc 8 normal 1");
  EXPECT_EQ(c.declared, std::vector<int>{c.variant});
  EXPECT_EQ(c.attributes.bytes, c.op->default_attributes.bytes);
  EXPECT_EQ(c.tier, Tier::quick);
  EXPECT_EQ(c.allowed_vacuous, "");
  EXPECT_EQ(c.suite, "gelu.toml");
}

TEST_F(SuiteTest, EveryKeyIsRead) {
  const Suite suite = read(
      "op = \"gelu\"\nseed = 7\n[[case]]\nname = \"tail\"\ndirection = \"backward_full\"\n"
      "precision = \"fp32:bf16:e4m3\"\nvariant = \"one_plus_tanh\"\ndeclare = [\"sigmoid\", "
      "\"one_plus_tanh\"]\nshape = [0]\nattributes = {approximate = \"tanh\"}\n"
      "input = {dy = {kind = \"uniform\", high = 2, low = -1.5}, x = \"gelu_tail\"}\n"
      "tier = \"nightly\"\nvacuous = \"it cancels\"\n");
  ASSERT_EQ(suite.cases.size(), 1U);
  const CaseSpec& c = suite.cases[0];
  EXPECT_EQ(text_of(c),
            "backward_full fp32:bf16:e4m3 one_plus_tanh 0 gelu_tail uniform(low=-1.5, high=2) 7");
  EXPECT_EQ(c.inputs[0].first, "x");
  EXPECT_EQ(c.inputs[1].first, "dy");
  EXPECT_EQ(c.declared, (std::vector<int>{2, 3}));
  EXPECT_EQ(std::get<std::string>(c.op->attributes[0].get(c.attributes)), "tanh");
  EXPECT_EQ(c.name, "tail");
  EXPECT_EQ(c.tier, Tier::nightly);
  EXPECT_EQ(c.allowed_vacuous, "it cancels");
}

TEST_F(SuiteTest, ListsAreMultipliedOutTheLastOneFastest) {
  const Suite suite = read(
      "op = \"gelu\"\n[[case]]\nseed = [1, 2]\nshape = [[3], [5]]\nprecision = [\"fp32\", "
      "\"fp64\"]\ndirection = [\"forward\", \"backward_local\"]\ninput = {x = [\"normal\", "
      "\"uniform\"]}\n");
  const std::vector<std::string> texts = texts_of(suite);
  std::vector<std::string> expected;
  for (const std::string direction : {"forward", "backward_local"})
    for (const std::string precision : {"fp32", "fp64"})
      for (const std::string size : {"3", "5"})
        for (const std::string input : {"normal", "uniform"})
          for (const std::string seed : {"1", "2"})
            expected.push_back(direction + " " + precision + " erfc " + size + " " + input +
                               (direction == "forward" ? "" : " normal") + " " + seed);
  EXPECT_EQ(texts, expected);
}

TEST_F(SuiteTest, AListOfInputsIsAList) {
  const Suite suite = read(minimal +
                           "direction = \"backward_local\"\n"
                           "input = [{x = [\"normal\", \"special\"], dy = \"uniform\"}, {}]\n");
  EXPECT_EQ(texts_of(suite),
            (std::vector<std::string>{"backward_local fp32 erfc 8 normal uniform 1",
                                      "backward_local fp32 erfc 8 special uniform 1",
                                      "backward_local fp32 erfc 8 normal normal 1"}));
}

TEST_F(SuiteTest, VariantsOfAListMeetTheAttributesThatAllowThem) {
  const Suite suite = read(minimal +
                           "attributes = {approximate = [\"none\", \"tanh\"]}\nvariant = "
                           "[\"one_plus_tanh\", \"erfc\", \"sigmoid\"]\n");
  EXPECT_EQ(texts_of(suite), (std::vector<std::string>{"forward fp32 erfc 8 normal 1",
                                                       "forward fp32 one_plus_tanh 8 normal 1",
                                                       "forward fp32 sigmoid 8 normal 1"}));
}

TEST_F(SuiteTest, FilesAreFoundBesideTheSuite) {
  put("worst.txt", "# made by hand\n0x1p-3\n-0x1.8p+1  # and another\n\n");
  const Suite suite = read(minimal + "input = {x = \"worst(worst.txt)\"}\n");
  ASSERT_EQ(suite.cases.size(), 1U);
  Tensor t(fp32, {3});
  fill_input(t, suite.cases[0].inputs[0].second, 1, "x");
  EXPECT_EQ(t.values(), (std::vector<double>{0.125, -3, 0.125}));
}

TEST_F(SuiteTest, AGradientIsStoredLikeItsTensor) {
  const Suite suite = read(
      "op = \"gelu\"\n[[case]]\ndirection = \"backward_local\"\nprecision = \"bf16:fp32:fp16\"\n"
      "shape = [1]\n");
  const CaseSpec& c = suite.cases[0];
  std::vector<Format> formats;
  for (const TensorSpec& t : c.op->backward->tensors)
    formats.push_back(format_of(tensor_element(c, t)));
  EXPECT_EQ(formats, (std::vector<Format>{bf16, fp16, bf16}));  // x, dy, dx
}

TEST_F(SuiteTest, TheSuitesOfTheTreeAreGood) {
  for (const Op& op : all_ops()) {
    const std::string path =
        std::string(OPBOUND_SOURCE_DIR) + "/suites/" + std::string(op.name) + ".toml";
    EXPECT_FALSE(read_suite(path).cases.empty()) << path;
  }
}

// ---- what is refused

TEST_F(SuiteTest, RefusesAFileThatIsNoSuite) {
  EXPECT_EQ(refusal("op = \n").substr(0, 12), "gelu.toml:1:");
  EXPECT_EQ(refusal(""), "gelu.toml:1: suite: no op, expected key op");
  EXPECT_EQ(refusal("op = \"gelu\"\n"), "gelu.toml:1: suite: no case, expected key case");
  EXPECT_EQ(refusal("op = \"gelu\"\ncase = []\n"),
            "gelu.toml:2: case: no case, expected at least one [[case]]");
  EXPECT_EQ(refusal("\nop = \"gleu\"\n").substr(0, 59),
            "gelu.toml:2: op: unknown op 'gleu' (gelu?), expected one of");
  EXPECT_EQ(refusal(minimal, "softmax"),
            "softmax.toml:1: op: op 'gelu' in a suite of another name, expected file gelu.toml");
  EXPECT_EQ(refusal("op = \"gelu\"\nsede = 3\n"),
            "gelu.toml:2: unknown key 'sede' (seed?), expected one of op, seed, case");
  EXPECT_THROW(read_suite((folder_ / "none.toml").string()), InputError);
  EXPECT_THROW(read_suite(folder_.string()), InputError);
}

TEST_F(SuiteTest, RefusesWrongKeysAndTypes) {
  EXPECT_EQ(refusal("op = \"gelu\"\n[[case]]\nshape = [8]\n"),
            "gelu.toml:2: case: no precision, expected key precision");
  EXPECT_EQ(refusal_of("shap = [8]"),
            "gelu.toml:5: unknown key 'shap' (shape?), expected one of name, direction, precision, "
            "variant, declare, shape, attributes, input, seed, tier, vacuous");
  EXPECT_EQ(refusal_of("name = 3"), "gelu.toml:5: name: a whole number, expected a string");
  EXPECT_EQ(refusal_of("seed = -1"),
            "gelu.toml:5: seed: -1, expected a whole number of at least 0");
  EXPECT_EQ(refusal_of("seed = 1.5"),
            "gelu.toml:5: seed: a number, expected a whole number of at least 0");
  EXPECT_EQ(
      refusal_of("tier = \"quik\""),
      "gelu.toml:5: tier: unknown tier 'quik' (quick?), expected one of quick, full, nightly");
  EXPECT_EQ(refusal_of("vacuous = true"),
            "gelu.toml:5: vacuous: true or false, expected the reason why a vacuous bound is no "
            "finding");
  EXPECT_EQ(refusal_of("vacuous = \"\""),
            "gelu.toml:5: vacuous: no reason, expected the reason as text");
  EXPECT_EQ(refusal_of("direction = []"),
            "gelu.toml:5: direction: an empty list, expected at least one value");
  EXPECT_EQ(refusal_of("direction = \"backward\""),
            "gelu.toml:5: direction: unknown direction 'backward', expected one of forward, "
            "backward_local, backward_full");
}

TEST_F(SuiteTest, RefusesImpossibleFormats) {
  const std::string expected =
      ", expected storage:compute:output or one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2";
  EXPECT_EQ(refusal_of("precision = \"bf17\""),
            "gelu.toml:4: precision: unknown precision 'bf17'" + expected);
  EXPECT_EQ(refusal_of("precision = \"bf16:fp32\""),
            "gelu.toml:4: precision: unknown precision 'bf16:fp32'" + expected);
  EXPECT_EQ(refusal_of("precision = 16"), "gelu.toml:4: precision: a whole number" + expected);
  EXPECT_EQ(refusal_of("precision = [\"fp32\",\n\"bf16:tf32:bf16\"]"),
            "gelu.toml:5: precision: no kernel computes in tf32, expected one of fp64, fp32, bf16, "
            "fp16");
  EXPECT_EQ(refusal_of("precision = \"fp32:bf16:bf16\""), "");  // loading rounds
}

TEST_F(SuiteTest, RefusesImpossibleShapes) {
  EXPECT_EQ(
      refusal_of("shape = 8"),
      "gelu.toml:4: shape: a whole number, expected a list of sizes, or a list of such lists");
  EXPECT_EQ(refusal_of("shape = [8, 9]"),
            "gelu.toml:4: shape: 2 sizes, expected 1 size: n; several shapes are a list of lists");
  EXPECT_EQ(refusal_of("shape = []"),
            "gelu.toml:4: shape: 0 sizes, expected 1 size: n; several shapes are a list of lists");
  EXPECT_EQ(refusal_of("shape = [[8], 9]"),
            "gelu.toml:4: shape: a whole number, expected 1 size: n");
  EXPECT_EQ(refusal_of("shape = [-1]"), "gelu.toml:4: shape: -1, expected a size of at least 0");
  EXPECT_EQ(refusal_of("shape = [268435456]"), "");
  EXPECT_EQ(refusal_of("shape = [268435457]"),
            "gelu.toml:4: shape: tensor x is too large, expected at most 268435456 elements");
  EXPECT_EQ(refusal("op = \"softmax\"\n[[case]]\nprecision = \"fp32\"\nshape = [4294967296, "
                    "4294967296]\n",
                    "softmax"),
            "softmax.toml:4: shape: tensor x is too large, expected at most 268435456 elements");
}

TEST_F(SuiteTest, RefusesVariantsAndAttributes) {
  EXPECT_EQ(refusal_of("variant = \"erf\""),
            "gelu.toml:5: variant: unknown variant 'erf' (erfc?), expected one of erfc, "
            "one_plus_erf, sigmoid, one_plus_tanh");
  EXPECT_EQ(refusal_of("variant = \"sigmoid\""),
            "gelu.toml:5: variant: the attributes do not allow 'sigmoid', expected one of erfc, "
            "one_plus_erf");
  EXPECT_EQ(refusal_of("variant = [\"erfc\", \"sigmoid\"]"),
            "gelu.toml:5: variant: no attributes of this case allow 'sigmoid', expected variants "
            "that give a check");
  EXPECT_EQ(refusal_of("declare = \"sigmoid\""),
            "gelu.toml:5: declare: the attributes do not allow 'sigmoid', expected one of erfc, "
            "one_plus_erf");
  EXPECT_EQ(refusal("op = \"all_reduce\"\n[[case]]\nprecision = \"fp32\"\nshape = [4, 8]\n"
                    "attributes = {reduction = \"max\", hop = \"output\"}\n",
                    "all_reduce"),
            "all_reduce.toml:2: case: no variant of all_reduce has these attributes, expected "
            "attributes that one of its variants allows");
  EXPECT_EQ(refusal_of("attributes = {approximat = \"tanh\"}"),
            "gelu.toml:5: unknown key 'approximat' (approximate?), expected approximate");
  EXPECT_EQ(refusal_of("attributes = {approximate = \"erf\"}"),
            "gelu.toml:5: approximate: 'erf', expected one of none, tanh");
  EXPECT_EQ(refusal_of("attributes = {approximate = true}"),
            "gelu.toml:5: approximate: true or false, expected one of none, tanh");
  EXPECT_EQ(refusal_of("attributes = \"tanh\""),
            "gelu.toml:5: attributes: a string, expected a table");
}

TEST_F(SuiteTest, RefusesInputs) {
  EXPECT_EQ(refusal_of("input = {dy = \"normal\"}"), "gelu.toml:5: unknown key 'dy', expected x");
  EXPECT_EQ(refusal_of("input = {x = 3}"),
            "gelu.toml:5: x: a whole number, expected a generator, as a string or as a table");
  EXPECT_EQ(refusal_of("input = {x = {sigma = 5}}"), "gelu.toml:5: x: no kind, expected key kind");
  EXPECT_EQ(refusal_of("input = {x = {kind = \"normal\", sigma = \"5\"}}"),
            "gelu.toml:5: sigma: a string, expected a number");
  EXPECT_EQ(refusal_of("input = {x = \"normal(sigam=5)\"}"),
            "gelu.toml:5: x: unknown parameter 'sigam' (sigma?) of normal, expected one of mean, "
            "sigma");
  EXPECT_EQ(refusal_of("input = {x = \"normal(sigma=5\"}"),
            "gelu.toml:5: x: no ')' at the end of 'normal(sigma=5', expected kind(name = number)");
  EXPECT_EQ(refusal_of("input = {x = \"normal(sigma=big)\"}"),
            "gelu.toml:5: x: parameter 'sigma=big' of normal, expected name = number");
  EXPECT_EQ(refusal_of("input = {x = \"normal(sigma=1, sigma=2)\"}"),
            "gelu.toml:5: x: parameter 'sigma' twice, expected each parameter once");
  EXPECT_EQ(refusal_of("input = {x = \"nromal\"}").substr(0, 55),
            "gelu.toml:5: x: unknown generator 'nromal' (normal?), e");
  EXPECT_EQ(refusal_of("input = {x = \"worst\"}"),
            "gelu.toml:5: x: worst without a file, expected worst(path)");
  EXPECT_EQ(refusal_of("input = {x = {kind = \"normal\", path = \"a\"}}"),
            "gelu.toml:5: x: normal with a path, expected a kind that reads a file");
  EXPECT_EQ(refusal_of("input = {x = {kind = \"worst\", path = \"a\", tensor = \"b\"}}"),
            "gelu.toml:5: x: worst with the name of a tensor, expected kind file");
}

TEST_F(SuiteTest, RefusesInputsThatDoNotSuitTheFormat) {
  EXPECT_EQ(refusal_of("input = {x = \"normal(sigma=-1)\"}"),
            "gelu.toml:5: x: sigma = -1, expected a number from 0 to 1.7976931348623157e+308");
  EXPECT_EQ(refusal_of("input = {x = \"uniform(low=3, high=2)\"}"),
            "gelu.toml:5: x: high = 2, expected a number from 3 to 1.7976931348623157e+308");
  EXPECT_EQ(refusal_of("input = {x = \"log_spaced(low=-150)\"}"),
            "gelu.toml:5: x: low = -150, expected a whole number from -149 to 127");
  EXPECT_EQ(refusal_of("input = {x = \"log_spaced(high=0.5)\"}"),
            "gelu.toml:5: x: high = 0.5, expected a whole number from -8 to 127");
  EXPECT_EQ(refusal_of("input = {x = \"near_overflow(binades=0)\"}"),
            "gelu.toml:5: x: binades = 0, expected a whole number from 1 to 254");
  EXPECT_EQ(refusal_of("input = {x = \"every_pattern\"}"),
            "gelu.toml:5: x: every pattern of fp32, expected a 16-bit or 8-bit format");
  EXPECT_EQ(refusal_of("input = {x = \"worst(none.txt)\"}"),
            "gelu.toml:5: x: none.txt: no such file, expected a file that exists");
}

TEST_F(SuiteTest, RefusesTooManyCombinations) {
  std::string seeds = "0";
  for (int i = 1; i < 400; ++i) seeds += ", " + std::to_string(i);
  std::string shapes = "[1]";
  for (int i = 1; i < 400; ++i) shapes += ", [1]";
  EXPECT_EQ(refusal("op = \"gelu\"\n[[case]]\nprecision = \"fp32\"\nshape = [" + shapes +
                    "]\nseed = [" + seeds + "]\n"),
            "gelu.toml:2: case: too many combinations, expected at most 100000");
}

// Whatever a file holds, it is a suite or an InputError that names it.
TEST_F(SuiteTest, SurvivesMutations) {
  const std::string good = minimal +
                           "input = [{x = \"normal(sigma=2)\"}, {x = {kind = \"one_hot\"}}]\n"
                           "attributes = {approximate = \"none\"}\nseed = [1, 2]\n";
  for (std::uint64_t i = 0; i < 500; ++i) {
    std::string text = good;
    for (std::uint64_t k = 0; k < 1 + i % 3; ++k) {
      const std::size_t at = philox_word(1, i, 2 * k) % text.size();
      const char c = static_cast<char>(philox_word(1, i, 2 * k + 1));
      if (i % 2 == 0) text[at] = c;
      if (i % 2 == 1) text.erase(at, static_cast<unsigned char>(c) % 8);
    }
    const std::string message = refusal(text);
    EXPECT_TRUE(message.empty() || message.starts_with("gelu.toml")) << text << message;
  }
}

}  // namespace
}  // namespace opbound
