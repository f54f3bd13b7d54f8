#include "distributed/train/model.hpp"

#include <algorithm>
#include <cmath>

#include "distributed/train/data.hpp"
#include "reports/error.hpp"
#include "suites/suggest.hpp"

namespace opbound::train {
namespace {

constexpr double weight_deviation = 0.02;
constexpr double position_deviation = 0.01;

/// What is learned, one after the other.
class Parameters {
 public:
  explicit Parameters(const ModelSpec& m) : m_(m) {}

  std::vector<ParameterSpec> all() {
    const std::int64_t width = m_.width;
    add("wte.weight", {m_.vocabulary, width}, "embedding", -1, weight_deviation);
    if (m_.positions == Positions::learned)
      add("wpe.weight", {m_.context, width}, "embedding", -1, position_deviation);
    for (int layer = 0; layer < m_.layers; ++layer) block(layer);
    norm("ln_f", -1);
    if (!m_.tied_head) add("lm_head.weight", {m_.vocabulary, width}, "head", -1, weight_deviation);
    return std::move(all_);
  }

 private:
  void block(int layer) {
    const std::string in = "h." + std::to_string(layer) + ".";
    const double projection = weight_deviation / std::sqrt(2.0 * m_.layers);  // sqrt: one rounding
    const std::int64_t gates = m_.activation == Activation::swiglu ? 2 : 1;
    norm(in + "ln_1", layer);
    linear(in + "attn.c_attn", m_.width, 3 * m_.width, "matmul", layer, weight_deviation);
    linear(in + "attn.c_proj", m_.width, m_.width, "matmul", layer, projection);
    norm(in + "ln_2", layer);
    linear(in + "mlp.c_fc", m_.width, gates * m_.hidden, "mlp:matmul", layer, weight_deviation);
    linear(in + "mlp.c_proj", m_.hidden, m_.width, "mlp:matmul", layer, projection);
  }

  void norm(const std::string& name, int layer) {
    const bool is_layer_norm = m_.norm == Norm::layer_norm;
    const std::string_view op = is_layer_norm ? "layer_norm" : "rms_norm";
    add(name + ".weight", {m_.width}, op, layer, 0, 1);
    if (is_layer_norm && m_.biases) add(name + ".bias", {m_.width}, op, layer, 0);
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, std::string_view op,
              int layer, double deviation) {
    add(name + ".weight", {in, out}, op, layer, deviation);
    if (m_.biases) add(name + ".bias", {out}, op, layer, 0);
  }

  void add(std::string name, Shape shape, std::string_view op, int layer, double deviation,
           double mean = 0) {
    const bool decays = shape.size() > 1;
    all_.push_back({std::move(name), std::move(shape), op, layer, mean, deviation, decays});
  }

  const ModelSpec& m_;
  std::vector<ParameterSpec> all_;
};

struct Range {
  std::string_view key;
  std::int64_t value, low, high;
};

}  // namespace

std::vector<ParameterSpec> parameters_of(const ModelSpec& m) { return Parameters(m).all(); }

std::int64_t parameter_count(const ModelSpec& m) {
  std::int64_t count = 0;
  for (const ParameterSpec& p : parameters_of(m)) {
    std::int64_t elements = 1;
    for (const std::int64_t n : p.shape) elements *= n;
    count += elements;
  }
  return count;
}

std::span<const std::string_view> model_names() {
  static constexpr std::array<std::string_view, 4> names{"nano", "small", "deep24", "gpt2-124m"};
  return names;
}

ModelSpec model_named(std::string_view name) {
  ModelSpec m;
  m.name = name;
  m.activation = Activation::gelu_tanh;  // as GPT-2's source has it
  if (name == "nano") return m;
  if (name == "small") {
    m.layers = 6, m.heads = 6, m.width = 384, m.hidden = 4 * 384, m.context = 256;
    return m;
  }
  if (name == "deep24") {
    m.layers = 24, m.heads = 16, m.width = 1024, m.hidden = 4 * 1024, m.context = 1024;
    return m;
  }
  if (name == "gpt2-124m") {
    m.layers = 12, m.heads = 12, m.width = 768, m.hidden = 4 * 768, m.context = 1024;
    m.vocabulary = 50257;
    return m;
  }
  throw InputError("", "unknown model " + detail::in_quotes_with_suggestion(name, model_names()),
                   detail::one_of(model_names()) + ", or a table [model]");
}

void require_valid(const ModelSpec& m, const std::string& where) {
  constexpr std::int64_t most = 1 << 20;  // of anything: products of two stay below 2^63
  const std::array<Range, 6> ranges{{{"layers", m.layers, 1, 4096},
                                     {"heads", m.heads, 1, 4096},
                                     {"width", m.width, 1, most},
                                     {"hidden", m.hidden, 1, most},
                                     {"context", m.context, 1, most},
                                     {"vocabulary", m.vocabulary, byte_vocabulary, most}}};
  for (const Range& r : ranges)
    if (r.value < r.low || r.value > r.high)
      throw InputError(
          where, std::string(r.key) + ": " + std::to_string(r.value),
          "a whole number from " + std::to_string(r.low) + " to " + std::to_string(r.high));
  const std::int64_t parts = m.positions == Positions::rotary ? 2 * m.heads : m.heads;
  if (m.width % parts != 0)
    throw InputError(where, "width: " + std::to_string(m.width),
                     "a multiple of " + std::to_string(parts) +
                         (m.positions == Positions::rotary ? ", twice the heads of rotary positions"
                                                           : ", the heads"));
  if (!(m.norm_eps >= 0 && std::isfinite(m.norm_eps)))
    throw InputError(where, "norm_eps: not a number from 0 on", "such as 1e-5");
}

}  // namespace opbound::train
