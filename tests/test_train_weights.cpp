// Weights with GPT-2's names: the bits come back, files of other programs are read, and what does
// not fit is one line.
#include "distributed/train/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "distributed/train/checkpoint.hpp"
#include "ops/philox.hpp"
#include "reports/error.hpp"
#include "suites/tensor_file.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

using Tensors = std::map<std::string, Tensor>;

ModelSpec tiny(bool tied = true) {
  ModelSpec m;
  m.name = "tiny";
  m.layers = 2, m.heads = 2, m.width = 4, m.hidden = 6, m.context = 3;
  m.tied_head = tied;
  return m;
}

Tensors weights_of(const ModelSpec& m, const Format& format = fp32) {
  Tensors all;
  std::uint64_t stream = 0;
  for (const ParameterSpec& p : parameters_of(m)) {
    Tensor t(format, p.shape);
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, philox_word(1, stream, static_cast<std::uint64_t>(i)) * 0x1p-31 - 1);
    all.emplace(p.name, std::move(t));
    ++stream;
  }
  return all;
}

bool same(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.element() == y.second.element() &&
           x.second.shape() == y.second.shape() &&
           std::ranges::equal(x.second.bytes(), y.second.bytes());
  });
}

class TrainWeights : public TemporaryFolder {
 protected:
  const std::string file_ = path("w.safetensors");

  /// What reading these tensors is refused with, without the file's name.
  std::string refusal(const Tensors& tensors, const ModelSpec& m = tiny()) const {
    write_safetensors(file_, tensors);
    try {
      read_weights(file_, m);
    } catch (const InputError& e) {
      const std::string line = e.what();
      EXPECT_TRUE(line.starts_with(file_ + ": ")) << line;
      return line.substr(std::min(line.size(), file_.size() + 2));
    }
    return "";
  }
};

TEST_F(TrainWeights, ComeBackBitForBit) {
  for (const bool tied : {true, false})
    for (const Format& format : {fp64, fp32, bf16, fp16}) {
      const ModelSpec m = tiny(tied);
      const Tensors weights = weights_of(m, format);
      Tensors state = weights;  // what is no parameter is not written
      state.emplace("m.wte.weight", weights.at("wte.weight"));
      write_weights(file_, m, state);
      EXPECT_EQ(tensor_names(file_).size(), weights.size());
      EXPECT_TRUE(same(read_weights(file_, m, format), weights));
    }
}

TEST_F(TrainWeights, EveryReadyModelAndKind) {
  ModelSpec m = model_named("nano");
  for (const Norm norm : {Norm::layer_norm, Norm::rms_norm})
    for (const Activation a : {Activation::gelu, Activation::swiglu})
      for (const Positions p : {Positions::learned, Positions::rotary})
        for (const bool biases : {true, false}) {
          m.norm = norm, m.activation = a, m.positions = p, m.biases = biases;
          const Tensors weights = weights_of(m);
          write_weights(file_, m, weights);
          EXPECT_TRUE(same(read_weights(file_, m), weights));
        }
}

// Rounded to nearest even where the format is narrower, exact where it is wider.
TEST_F(TrainWeights, AreRoundedToTheMastersFormat) {
  const ModelSpec m = tiny();
  write_weights(file_, m, weights_of(m, fp32));
  const Tensors narrow = read_weights(file_, m, bf16), wide = read_weights(file_, m, fp64);
  for (const auto& [name, tensor] : weights_of(m, fp32))
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      EXPECT_EQ(narrow.at(name).at(i), round_to(bf16, tensor.at(i)));
      EXPECT_EQ(wide.at(name).at(i), tensor.at(i));
    }
}

TEST_F(TrainWeights, FilesOfOthers) {
  const ModelSpec m = tiny();
  const Tensors weights = weights_of(m);
  Tensors theirs;
  for (const auto& [name, tensor] : weights) theirs.emplace("transformer." + name, tensor);
  theirs.emplace("lm_head.weight", weights.at("wte.weight"));
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = "transformer.h." + std::to_string(layer) + ".attn.";
    theirs.emplace(at + "bias", Tensor(Element::boolean, {1, 1, 3, 3}));
    theirs.emplace(at + "masked_bias", Tensor(fp32, {}));
  }
  EXPECT_EQ(refusal(theirs), "");
  EXPECT_TRUE(same(read_weights(file_, m), weights));
}

TEST_F(TrainWeights, WhatDoesNotFitIsOneLine) {
  const ModelSpec m = tiny();
  const Tensors weights = weights_of(m);
  const auto changed = [&](auto change) {
    Tensors t = weights;
    change(t);
    return refusal(t);
  };
  EXPECT_EQ(changed([](Tensors& t) { t.erase("h.1.mlp.c_fc.weight"); }),
            "no tensor 'h.1.mlp.c_fc.weight', expected one of shape (4, 6)");
  EXPECT_EQ(changed([](Tensors& t) {
              t["h.1.mlp.c_fc.weight"] = Tensor(fp32, {6, 4});
            }),
            "tensor 'h.1.mlp.c_fc.weight': shape (6, 4), expected (4, 6) for this model");
  EXPECT_EQ(changed([](Tensors& t) {
              t["wpe.weight"] = Tensor(Element::int32, {3, 4});
            }),
            "tensor 'wpe.weight': holds int32, expected floating-point numbers");
  EXPECT_EQ(changed([](Tensors& t) { t["transformer.wpe.weight"] = t["wpe.weight"]; }),
            "tensor 'wpe.weight': there twice, with and without 'transformer.', expected each "
            "parameter once");
  const std::string unknown = changed([](Tensors& t) { t["h.1.mlp.c_fd.weight"] = Tensor(); });
  EXPECT_TRUE(unknown.starts_with("tensor 'h.1.mlp.c_fd.weight'")) << unknown;
  EXPECT_NE(unknown.find("h.1.mlp.c_fc.weight"), std::string::npos) << unknown;
  EXPECT_EQ(changed([](Tensors& t) {
              Tensor other = t["wte.weight"];
              other.set(5, 3);
              t["lm_head.weight"] = other;
            }),
            "tensor 'lm_head.weight': differs from 'wte.weight', expected the same, since this "
            "model ties its head");
  EXPECT_EQ(refusal(weights, tiny(false)),
            "no tensor 'lm_head.weight', expected one of shape (256, 4)");
  EXPECT_EQ(changed([](Tensors&) {}), "");
}

TEST_F(TrainWeights, OfACheckpointToo) {
  const ModelSpec m = tiny();
  const Tensors weights = weights_of(m);
  Checkpoint checkpoint{.step = 3, .tensors = weights, .metadata = {}};
  for (const auto& [name, tensor] : weights) checkpoint.tensors.emplace("m." + name, tensor);
  const std::string folder = path("run");
  const std::string file = CheckpointFolder(folder).write(checkpoint).string();
  EXPECT_TRUE(same(read_weights(file, m), weights));
  EXPECT_TRUE(same(read_weights(folder, m), weights));
  checkpoint.step = 4;
  checkpoint.tensors.at("wpe.weight").set(0, 7);
  const std::string newer = CheckpointFolder(folder).write(checkpoint).string();
  EXPECT_EQ(read_weights(folder, m).at("wpe.weight").at(0), 7);
  put("run/" + std::filesystem::path(newer).filename().string(), "torn");
  EXPECT_TRUE(same(read_weights(folder, m), weights));

  const auto line = [&](const std::string& from, const ModelSpec& model) {
    try {
      read_weights(from, model);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(line(file, tiny(false)),
            file + ": no tensor 'lm_head.weight', expected (256, 4) for this model");
  ModelSpec wider = m;
  wider.context = 5;
  EXPECT_EQ(line(file, wider),
            file + ": tensor 'wpe.weight': shape (3, 4), expected (5, 4) for this model");
  std::filesystem::create_directory(path("empty"));
  EXPECT_EQ(line(path("empty"), m),
            path("empty") + ": no checkpoint in this folder, expected one of a training run");
  std::filesystem::remove(file);
  EXPECT_TRUE(line(folder, m).starts_with(newer + ": "));
}

TEST_F(TrainWeights, FilesThatAreNone) {
  const auto line = [&] {
    try {
      read_weights(file_, tiny());
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string expected =
      ", expected a .safetensors file of parameters under GPT-2's names, a checkpoint, or a folder "
      "of them";
  EXPECT_EQ(line(), file_ + ": no weights (no such file)" + expected);
  put("w.safetensors", "not one");
  EXPECT_EQ(line(), file_ + ": no weights (ends at byte 7)" + expected);
  put("w.safetensors", "a file of something else");
  EXPECT_EQ(line(), file_ + ": no weights (a header of 8007511653763915873 bytes)" + expected);
  EXPECT_THROW(write_weights(path("none/w.safetensors"), tiny(), weights_of(tiny())), InputError);
}

}  // namespace
}  // namespace opbound::train
