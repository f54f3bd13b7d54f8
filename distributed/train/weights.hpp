// A model's weights from and to .safetensors files with GPT-2's names, as Hugging Face's
// transformers has them: "wte.weight", "h.0.attn.c_attn.weight", a weight as [in, out].
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "distributed/train/model.hpp"
#include "ops/format.hpp"
#include "ops/tensor.hpp"

namespace opbound::train {

/// All parameters of the model, by name, each value rounded to nearest even in `format` (exact from
/// a narrower one): from a file of weights, from a checkpoint of a training run, or from the newest
/// good one of a folder of checkpoints. In a file of weights names may begin with "transformer.";
/// "lm_head.weight" may stand beside a tied "wte.weight" of the same bits; causal masks that old
/// files have beside weights (attn.bias, attn.masked_bias) are passed over. Throws InputError, one
/// line, for any other name or shape, a parameter that is missing or there twice, or one that is no
/// floating-point number.
std::map<std::string, Tensor> read_weights(const std::filesystem::path& file, const ModelSpec& m,
                                           const Format& format = fp32);

/// Writes all parameters of the model, a tied head once, and nothing else that is in `tensors`; a
/// reader never sees half a file. Throws InputError if the file cannot be written.
void write_weights(const std::filesystem::path& file, const ModelSpec& m,
                   const std::map<std::string, Tensor>& tensors);

}  // namespace opbound::train
