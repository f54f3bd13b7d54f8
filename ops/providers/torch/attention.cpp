// Scaled dot-product attention, by backend: which one follows from the variant that is asked for.
#include <torch/version.h>

#include <limits>

#include "ops/providers/torch/autograd.hpp"
#include "ops/providers/torch/kernels.hpp"

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

namespace opbound::with_torch {
namespace {

/// A call as all backends take it: one batch, keys and values repeated for the heads that share
/// them, as enable_gqa does.
struct Problem {
  at::Tensor q, k, v, mask;
  bool is_causal = false;
  std::optional<double> scale;
  std::int64_t group = 1;

  explicit Problem(const Call& c) {
    q = c.tensor("q").unsqueeze(0);
    group = q.size(1) / std::max<std::int64_t>(c.tensor("k").size(0), 1);
    k = repeated(c.tensor("k"));
    v = repeated(c.tensor("v"));
    if (c.number("scale") != 0) scale = c.number("scale");
    const std::string kind = c.word("mask");
    is_causal = kind == "causal";
    require(!is_causal || c.word("causal_from") == "first_key" || q.size(2) == k.size(2),
            "its causal masks begin at the first key");
    if (kind == "additive") mask = c.tensor("bias");
    if (kind == "boolean")
      mask = at::zeros_like(c.tensor("mask"), q.options())
                 .masked_fill_(c.tensor("mask").logical_not(),
                               -std::numeric_limits<double>::infinity());
  }

  at::Tensor repeated(const at::Tensor& t) const {
    return (group == 1 ? t : t.repeat_interleave(group, 0)).unsqueeze(0);
  }
  /// The gradient of what was repeated.
  at::Tensor summed(const at::Tensor& d) const {
    if (group == 1) return d.squeeze(0);
    require(d.scalar_type() == at::kFloat || d.scalar_type() == at::kDouble,
            "it stores the gradients of repeated heads before it sums them");
    return d.squeeze(0).unflatten(0, {d.size(1) / group, group}).sum(1);
  }
};

bool is_narrow(const at::Tensor& t) { return t.element_size() == 2; }

/// What tiled kernels keep in 16 bits are P and dS, before they are multiplied.
void require_tiled(const Call& c, const Problem& p) {
  require(p.q.numel() > 0 && p.k.numel() > 0,
          "its dispatcher takes the backend math for empty tensors");
  const std::string kept = is_narrow(p.q) ? name_of(p.q.scalar_type()) : "fp64";
  require(c.word("p_format") == kept, "its P is in " + kept);
  require(!c.is_backward() || c.word("ds_format") == kept, "its dS is in " + kept);
  require(!c.is_backward() || c.word("row_term") == "stored_o", "its row term is of the stored o");
}

#ifdef OPBOUND_TORCH_CUDA

/// FlashAttention 2; its tiles have 64 keys or more.
void tiled(const Call& c) {
  const Problem p(c);
  require_tiled(c, p);
  require(!p.mask.defined(), "its flash attention takes no mask");
  require(p.k.size(2) <= 64, "its tiles of keys are not those of the call");
  const auto f = at::_scaled_dot_product_flash_attention(p.q, p.k, p.v, 0.0, p.is_causal,
                                                         /*return_debug_mask=*/false, p.scale);
  if (!c.is_backward()) {
    c.give("o", std::get<0>(f).squeeze(0));
    return c.give("lse", std::get<1>(f).squeeze(0));
  }
  const auto d = at::_scaled_dot_product_flash_attention_backward(
      c.tensor("do").unsqueeze(0), p.q, p.k, p.v, c.tensor("o").unsqueeze(0),
      c.tensor("lse").unsqueeze(0), std::get<2>(f), std::get<3>(f), std::get<4>(f).expect_int(),
      std::get<5>(f).expect_int(), 0.0, p.is_causal, std::get<6>(f), std::get<7>(f), p.scale);
  c.give("dq", std::get<0>(d).squeeze(0));
  c.give("dk", p.summed(std::get<1>(d)));
  c.give("dv", p.summed(std::get<2>(d)));
}

constexpr const char* tiled_variant = "online_exp2";

#else

/// The CPU's flash attention, in tiles of 512 keys.
void tiled(const Call& c) {
  const Problem p(c);
  require_tiled(c, p);
  require(c.whole("tile") >= p.k.size(2) || c.whole("tile") == 512, "its tiles have 512 keys");
  if (!c.is_backward()) {
    const auto [o, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        p.q, p.k, p.v, 0.0, p.is_causal, maybe(p.mask), p.scale);
    c.give("o", o.squeeze(0));
    return c.give("lse", lse.squeeze(0));
  }
  const auto d = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      c.tensor("do").unsqueeze(0), p.q, p.k, p.v, c.tensor("o").unsqueeze(0),
      c.tensor("lse").unsqueeze(0), 0.0, p.is_causal, maybe(p.mask), p.scale);
  c.give("dq", std::get<0>(d).squeeze(0));
  c.give("dk", p.summed(std::get<1>(d)));
  c.give("dv", p.summed(std::get<2>(d)));
}

constexpr const char* tiled_variant = "online";

#endif

/// The backend "math": a softmax between two products. It gives no lse: torch's logsumexp of the
/// same scores stands for it.
void whole(const Call& c) {
  Problem p(c);
  require(!is_narrow(p.q), "its steps in 16 bits are not those of an op of opbound");
  // q and k are scaled before they are multiplied: with few terms that is more than their sum's
  // bound
  require(p.q.size(3) >= 4, "it scales q and k, not their product");
  c.require_as_computed({"p_format", "ds_format"});
  if (c.is_backward()) require(c.word("row_term") == "p_dp", "its row term is the sum of P dP");
  for (at::Tensor* t : {&p.q, &p.k, &p.v}) *t = t->detach().requires_grad_(true);
  const at::Tensor o = std::get<0>(at::_scaled_dot_product_attention_math(
      p.q, p.k, p.v, maybe(p.mask), 0.0, p.is_causal, {}, p.scale));
  if (!c.is_backward()) {
    const double scale = p.scale.value_or(1 / std::sqrt(static_cast<double>(p.q.size(3))));
    at::Tensor scores = at::matmul(p.q * std::sqrt(scale), (p.k * std::sqrt(scale)).mT());
    if (p.mask.defined()) scores = scores + p.mask;
    if (p.is_causal)
      scores = scores.masked_fill(at::ones_like(scores, at::kBool).tril().logical_not(),
                                  -std::numeric_limits<double>::infinity());
    c.give("o", o.squeeze(0));
    return c.give("lse", at::logsumexp(scores, {3}).squeeze(0));
  }
  require(at::equal(o.detach().squeeze(0), c.tensor("o")), "it makes o again in the backward pass");
  const auto d = gradients(o, c.tensor("do").unsqueeze(0), {p.q, p.k, p.v});
  c.give("dq", d[0].squeeze(0));
  c.give("dk", p.summed(d[1]));
  c.give("dv", p.summed(d[2]));
}

}  // namespace

// aten/src/ATen/native/cpu/FlashAttentionKernel.cpp and the CUDA kernels of FlashAttention 2;
// native/transformers/attention.cpp, _scaled_dot_product_attention_math.
void add_attention(Kernels& kernels) {
  kernels.push_back({"attention", nullptr, tiled_variant, Narrow::in_fp32, tiled});
  kernels.push_back({"attention", nullptr, "normalized_first", Narrow::in_fp32, whole});
}

}  // namespace opbound::with_torch

#else

// scaled_dot_product_attention came with 2.0, a kernel for the CPU that takes masks with 2.4.
void opbound::with_torch::add_attention(Kernels&) {}

#endif
