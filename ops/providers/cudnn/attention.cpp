// Scaled dot-product attention.
#include <cmath>

#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/plan.hpp"

namespace opbound::with_cudnn {
namespace {

namespace fe = cudnn_frontend;

/// A call's sizes, once it is known to be one that a bound of opbound's holds for.
struct Problem {
  const Call& c;
  std::int64_t heads, kv_heads, queries, keys, d;
  double scale;

  explicit Problem(const Call& call) : c(call) {
    c.require_elements();
    const opbound_tensor &q = c.tensor("q"), &k = c.tensor("k");
    heads = q.size[0], queries = q.size[1], d = q.size[2];
    kv_heads = k.size[0], keys = k.size[1];
    scale = c.number("scale") != 0 ? c.number("scale") : 1 / std::sqrt(static_cast<double>(d));
    require_formats();
    require_mask();
    require_tiles();
    if (c.is_backward()) require_gradients();
  }

  void require_formats() const {
    const int format = c.tensor("q").element;
    require(is_narrow(format), "its attention is in 16 bits");
    for (const char* name : {"k", "v", "o"})
      require(c.tensor(name).element == format, "its q, k, v and o have one format");
    require(c.word("p_format") == name_of(format), "its P is in " + name_of(format));
  }

  void require_mask() const {
    const std::string mask = c.word("mask");
    require(mask != "boolean", "its masks are added, none is of booleans");
    require(mask != "additive", "a bias before an exp2 is no variant of opbound's");
  }

  /// Its tiles have 64 keys or more, all of them multiples of 64; bounds of smaller tiles count
  /// more roundings.
  void require_tiles() const {
    require(keys <= 64 || 64 % c.whole("tile") == 0, "its tiles have multiples of 64 keys");
    require(keys <= 64 || queries > 1,
            "it may split the keys of a single query, which no variant of opbound's does");
  }

  void require_gradients() const {
    const int format = c.tensor("q").element;
    require(c.tensor("do").element == format, "its do has the format of its o");
    require(c.word("ds_format") == name_of(format), "its dS is in " + name_of(format));
    require(c.word("row_term") == "stored_o", "its row term is of the stored o");
    require(heads == kv_heads, "it stores the gradients of repeated heads before it sums them");
    require(format == OPBOUND_BF16 || scale >= 1,
            "its dS is scaled before it is stored in fp16, where it may vanish");
  }

  Layout layout(const char* name) const {
    const opbound_tensor& t = c.tensor(name);
    return {{1, t.size[0], t.size[1], t.size[2]},
            {t.size[0] * t.stride[0], t.stride[0], t.stride[1], t.stride[2]}};
  }
  Layout statistics() const {
    const opbound_tensor& t = c.tensor("lse");
    require(t.stride[1] == 1 && (t.size[0] == 1 || t.stride[0] == queries),
            "its lse has no gaps between rows");
    return {{1, heads, queries, 1}, {heads * queries, queries, 1, 1}};
  }

  /// Scale and mask, which both passes are told in the same words.
  template <class Attributes>
  void tell(Attributes& attributes) const {
    attributes.set_attn_scale(static_cast<float>(scale));
    if (c.word("mask") != "causal") return;
    const bool from_first = c.word("causal_from") == "first_key" || queries == keys;
    attributes.set_diagonal_alignment(from_first ? fe::DiagonalAlignment_t::TOP_LEFT
                                                 : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    attributes.set_diagonal_band_right_bound(0);
  }
};

void forward(const Problem& p, Plan& plan) {
  fe::graph::SDPA_attributes attributes;
  // the graph that names the format of all that lies between, and that all versions have
  attributes.set_name("sdpa").set_generate_stats(true).set_implementation(
      fe::AttentionImplementation_t::COMPOSITE);
  p.tell(attributes);
  const Tensor q = plan.input(p.c, "q", p.layout("q")), k = plan.input(p.c, "k", p.layout("k")),
               v = plan.input(p.c, "v", p.layout("v"));
  const auto [o, stats] = plan.graph().sdpa(q, k, v, attributes);
  plan.output(o, p.c, "o", p.layout("o"));
  plan.output(stats, p.c, "lse", p.statistics());
}

void backward(const Problem& p, Plan& plan) {
  fe::graph::SDPA_backward_attributes attributes;
  attributes.set_name("sdpa_backward").set_deterministic_algorithm(is_deterministic());
  p.tell(attributes);
  const auto in = [&](const char* name) { return plan.input(p.c, name, p.layout(name)); };
  const Tensor q = in("q"), k = in("k"), v = in("v"), o = in("o"), d_o = in("do");
  const Tensor stats = plan.input(p.c, "lse", p.statistics());
  const auto [dq, dk, dv] = plan.graph().sdpa_backward(q, k, v, o, d_o, stats, attributes);
  plan.output(dq, p.c, "dq", p.layout("dq"));
  plan.output(dk, p.c, "dk", p.layout("dk"));
  plan.output(dv, p.c, "dv", p.layout("dv"));
}

void attention(const Call& c, Plan& plan) {
  (c.is_backward() ? backward : forward)(Problem(c), plan);
}

}  // namespace

bool is_deterministic() {
  static const bool asked = read_switch("OPBOUND_CUDNN_DETERMINISTIC");
  return asked;
}

// FlashAttention 2, says its documentation, which is online_exp2; NVIDIA's own kernel for Hopper in
// the frontend (cudnn/sdpa/fwd/kernels/sm90) has exp2(fma(q . k, c, -(max c))), tiles of 64 keys,
// and a reciprocal at the end. whole_row is what these are where the keys fit into one tile. The
// graphs that the frontend writes (cudnn_frontend/node/scaled_dot_product_flash_attention.h) say
// what is in 16 bits: P, dS, which holds the scale by then, and each head's dK and dV.
void add_attention(Kernels& kernels) {
  kernels.push_back(
      {"attention", nullptr, "online_exp2|online|whole_row", false, attention, nullptr});
}

}  // namespace opbound::with_cudnn
