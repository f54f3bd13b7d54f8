// The forward pass of a model, as calls on a tape.
#include "distributed/train/forward.hpp"

#include <cmath>

namespace opbound::train {
namespace {

class Builder {
 public:
  Builder(const ModelSpec& m, Tape& tape, std::int64_t sequences)
      : m_(m), tape_(tape), batch_(sequences), rows_(sequences * m.context) {}

  ForwardRefs build() {
    hold_parameters();
    f_.tokens = tape_.hold({"tokens", Element::int64, {rows_}, Life::input, -1});
    f_.targets = tape_.hold({"targets", Element::int64, {rows_}, Life::input, -1});
    Ref x = embedded();
    const Checkpointing what = tape_.policy().checkpointing;
    for (int layer = 0; layer < m_.layers; ++layer) {
      if (what == Checkpointing::all) tape_.begin_segment(tape_.policy().stored_input);
      x = block(x, layer);
      if (what == Checkpointing::all) tape_.end_segment();
    }
    loss_of(normalized(x, "ln_f", -1));
    return std::move(f_);
  }

 private:
  using Text = std::string;

  void hold_parameters() {
    const std::vector<ParameterSpec> all = parameters_of(m_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int place = static_cast<int>(i);
      const Element element = element_of(weight_format(tape_.policy(), all[i]));
      const Element gradient = element_of(tape_.policy().gradient);
      f_.weights.push_back(
          tape_.hold({all[i].name, element, all[i].shape, Life::parameter, place}));
      f_.gradients.push_back(
          tape_.hold({"d " + all[i].name, gradient, all[i].shape, Life::gradient, place}));
      by_name_[all[i].name] = f_.weights.back();
    }
  }

  /// No such parameter: none.
  Ref parameter(const Text& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? Ref{} : found->second;
  }
  static Text in_layer(int layer, const Text& name) {
    return layer < 0 ? name : "h." + std::to_string(layer) + "." + name;
  }

  Ref embedded() {
    const auto lookup = [&](const Ref& table, const Ref& index, std::int64_t count) {
      return tape_
          .call({"embedding"}, "embedding",
                {{"tokens", count}, {"vocab", table.size[0]}, {"width", m_.width}},
                {{"table", table}, {"index", index}})
          .at("y");
    };
    Ref x = lookup(parameter("wte.weight"), f_.tokens, rows_);
    if (m_.positions == Positions::learned) {
      f_.positions = tape_.hold({"positions", Element::int64, {rows_}, Life::input, -1});
      x = tape_.sum(-1, x, lookup(parameter("wpe.weight"), f_.positions, rows_));
    }
    return dropped(x, -1);
  }

  Ref dropped(const Ref& x, int layer) {
    const double p = tape_.policy().dropout;
    if (p == 0) return x;
    const auto n = x.size.back();
    return tape_
        .call({"dropout", layer}, "dropout", {{"rows", x.count() / n}, {"n", n}},
              {{"x", x.reshaped({x.count() / n, n})}}, {{"p", p}})
        .at("y")
        .reshaped(x.size);
  }

  Ref normalized(const Ref& x, const Text& name, int layer) {
    const bool is_layer_norm = m_.norm == Norm::layer_norm;
    const std::string_view op = is_layer_norm ? "layer_norm" : "rms_norm";
    const Ref gamma = parameter(in_layer(layer, name + ".weight"));
    const Ref beta = parameter(in_layer(layer, name + ".bias"));
    const Ref rows = x.reshaped({rows_, m_.width});
    if (!is_layer_norm)
      return tape_
          .call({Text(op), layer}, op, {{"rows", rows_}, {"n", m_.width}},
                {{"x", rows}, {"gamma", gamma}}, {{"eps", m_.norm_eps}})
          .at("y");
    return tape_
        .call(
            {Text(op), layer}, op, {{"rows", rows_}, {"n", m_.width}},
            {{"x", rows}, {"gamma", gamma}, {"beta", beta}},
            {{"eps", m_.norm_eps}, {"affine", Text(beta.exists() ? "weight_and_bias" : "weight")}})
        .at("y");
  }

  Ref linear(const Text& part, int layer, const Ref& x, const Text& name) {
    const Ref w = parameter(in_layer(layer, name + ".weight"));
    const Ref bias = parameter(in_layer(layer, name + ".bias"));
    return tape_
        .call({part, layer}, "matmul", {{"m", rows_}, {"n", w.size[1]}, {"k", w.size[0]}},
              {{"a", x.reshaped({rows_, w.size[0]})}, {"b", w}, {"bias", bias}},
              {{"bias", bias.exists()}})
        .at("d");
  }

  /// Columns [first, first + width) of x[rows, ...] as [sequence, head, token, d], contiguous.
  Ref heads_of(const Ref& x, std::int64_t first, int layer) {
    const std::int64_t d = m_.width / m_.heads;
    Ref r = x.part(1, first, m_.width);
    r = Ref{r.value,
            {batch_, m_.context, m_.heads, d},
            {m_.context * x.stride[0], x.stride[0], d, 1},
            r.offset};
    return tape_.stored(r.permuted({0, 2, 1, 3}), format_of(tape_.value_of(x).element), layer);
  }

  Ref rotated(const Ref& x, int layer) {
    if (m_.positions != Positions::rotary) return x;
    // rope reads tokens of heads: a head's tokens are a row of tokens with one head each.
    const std::int64_t d = m_.width / m_.heads, tokens = batch_ * m_.heads * m_.context;
    if (!f_.positions.exists())
      f_.positions = tape_.hold({"positions", Element::int64, {tokens}, Life::input, -1});
    return tape_
        .call(
            {"rope", layer}, "rope",
            {{"tokens", tokens}, {"heads", 1}, {"d", d}, {"pairs", d / 2}, {"context", m_.context}},
            {{"x", x.reshaped({tokens, 1, d})}, {"positions", f_.positions}}, {{"indexed", true}})
        .at("y")
        .reshaped(x.size);
  }

  Ref attended(const Ref& x, int layer) {
    const Ref qkv = linear("matmul", layer, x, "attn.c_attn");
    const std::int64_t d = m_.width / m_.heads, heads = batch_ * m_.heads;
    const Ref q = rotated(heads_of(qkv, 0, layer), layer);
    const Ref k = rotated(heads_of(qkv, m_.width, layer), layer);
    const Ref v = heads_of(qkv, 2 * m_.width, layer);
    const bool again = tape_.policy().checkpointing == Checkpointing::attention;
    const Shape flat{heads, m_.context, d};
    if (again) tape_.begin_segment(tape_.policy().stored_input);
    Ref o = tape_
                .call({"attention", layer}, "attention",
                      {{"heads", heads},
                       {"kv_heads", heads},
                       {"queries", m_.context},
                       {"keys", m_.context},
                       {"d", d}},
                      {{"q", q.reshaped(flat)}, {"k", k.reshaped(flat)}, {"v", v.reshaped(flat)}},
                      {{"mask", Text("causal")}})
                .at("o");
    if (again) tape_.end_segment();
    o = o.reshaped({batch_, m_.heads, m_.context, d}).permuted({0, 2, 1, 3});
    o = tape_.stored(o, format_of(tape_.value_of(o).element), layer).reshaped({rows_, m_.width});
    return dropped(linear("matmul", layer, o, "attn.c_proj"), layer);
  }

  Ref activated(const Ref& x, int layer) {
    const auto n = x.count();
    const Text part = m_.activation == Activation::swiglu ? "mlp:swiglu" : "mlp:gelu";
    if (m_.activation != Activation::swiglu)
      return tape_
          .call({part, layer}, "gelu", {{"n", n}}, {{"x", x.reshaped({n})}},
                {{"approximate", Text(m_.activation == Activation::gelu ? "none" : "tanh")}})
          .at("y")
          .reshaped(x.size);
    const Format format = format_of(tape_.value_of(x).element);
    const auto half = [&](std::int64_t first) {
      return tape_.stored(x.part(1, first, m_.hidden), format, layer).reshaped({n / 2});
    };
    return tape_
        .call({part, layer}, "swiglu", {{"n", n / 2}}, {{"gate", half(0)}, {"up", half(m_.hidden)}})
        .at("y")
        .reshaped({rows_, m_.hidden});
  }

  Ref block(Ref x, int layer) {
    x = tape_.sum(layer, x, attended(normalized(x, "ln_1", layer), layer));
    const Ref hidden = linear("mlp:matmul", layer, normalized(x, "ln_2", layer), "mlp.c_fc");
    const Ref out = linear("mlp:matmul", layer, activated(hidden, layer), "mlp.c_proj");
    return tape_.sum(layer, x, dropped(out, layer));
  }

  void loss_of(const Ref& x) {
    const Ref head = m_.tied_head ? parameter("wte.weight").permuted({1, 0})
                                  : parameter("lm_head.weight").permuted({1, 0});
    f_.logits = tape_
                    .call({"head"}, "matmul", {{"m", rows_}, {"n", m_.vocabulary}, {"k", m_.width}},
                          {{"a", x}, {"b", head}})
                    .at("d");
    const auto loss = tape_.call(
        {"cross_entropy"}, "cross_entropy", {{"rows", rows_}, {"vocab", m_.vocabulary}, {"one", 1}},
        {{"logits", f_.logits}, {"targets", f_.targets}}, {{"reduction", Text("mean")}});
    f_.loss = loss.at("reduced");
  }

  const ModelSpec& m_;
  Tape& tape_;
  std::int64_t batch_, rows_;
  std::map<Text, Ref> by_name_;
  ForwardRefs f_;
};

}  // namespace

Format weight_format(const Policy& policy, const ParameterSpec& p) {
  const Precision precision = policy.rule(std::string(p.op), p.layer).precision;
  return bytes_of(element_of(precision.storage)) == 1 ? precision.output : precision.storage;
}

ForwardRefs record_forward(const ModelSpec& m, Tape& tape, std::int64_t sequences) {
  return Builder(m, tape, sequences).build();
}

}  // namespace opbound::train
