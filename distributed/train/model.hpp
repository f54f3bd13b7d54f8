// A decoder in the style of GPT-2: what it is made of, its parameters, and its forward pass as
// calls on a tape. Nothing here computes; every call is an op of ops/ through a provider.
//
//   x = wte[tokens] (+ wpe[position])
//   for each layer: x = x + proj(attention(norm(x))), x = x + mlp(norm(x))
//   loss = mean cross entropy of (norm(x) head), head = wte^T where it is tied
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tensor.hpp"

namespace opbound::train {

enum class Positions : std::uint8_t { learned, rotary };
enum class Norm : std::uint8_t { layer_norm, rms_norm };
enum class Activation : std::uint8_t { gelu, gelu_tanh, swiglu };

struct ModelSpec {
  std::string name;
  int layers = 2;
  int heads = 4;
  std::int64_t width = 64;    ///< divisible by heads; with rotary positions by 2 heads
  std::int64_t hidden = 256;  ///< of the MLP
  std::int64_t context = 64;  ///< tokens of a sequence
  std::int64_t vocabulary = 256;
  Positions positions = Positions::learned;
  Norm norm = Norm::layer_norm;
  Activation activation = Activation::gelu;
  bool biases = true;
  bool tied_head = true;
  double norm_eps = 1e-5;
};

/// One parameter: GPT-2's name ("h.0.attn.c_attn.weight"), GPT-2's layout (a weight is [in, out]).
struct ParameterSpec {
  std::string name;
  Shape shape;
  std::string_view op;  ///< the part that reads it first, as Policy::rule names it: its format
  int layer = -1;       ///< -1: of no layer
  double mean = 0;      ///< initial values: normal with this mean and deviation
  double deviation = 0;
  bool decays = false;  ///< weight decay: matrices and tables

  bool operator==(const ParameterSpec&) const = default;
};

/// In the order in which they are used. Initial values are those of GPT-2's source (model.py of
/// Radford and others 2019): normal with deviation 0.02, positions 0.01; projections back into the
/// residual stream 0.02 / sqrt(2 layers), as its paper says; norms 1 and 0, biases 0. With swiglu
/// the columns of mlp.c_fc.weight are `hidden` of the gate, then `hidden` of what it gates.
std::vector<ParameterSpec> parameters_of(const ModelSpec& m);

/// Numbers of all parameters together.
std::int64_t parameter_count(const ModelSpec& m);

/// The ready models: nano, small, deep24, gpt2-124m.
std::span<const std::string_view> model_names();

/// Throws InputError for any other name.
ModelSpec model_named(std::string_view name);

/// Throws InputError, saying `where`, if the numbers do not fit together.
void require_valid(const ModelSpec& m, const std::string& where);

inline constexpr std::array<std::string_view, 2> position_names{"learned", "rotary"};
inline constexpr std::array<std::string_view, 2> norm_names{"layer_norm", "rms_norm"};
inline constexpr std::array<std::string_view, 3> activation_names{"gelu", "gelu_tanh", "swiglu"};

}  // namespace opbound::train
