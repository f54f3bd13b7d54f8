// GELU, SwiGLU and dropout.
#include "ops/providers/torch/autograd.hpp"
#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

void gelu(const Call& c) {
  const std::string approximate = c.word("approximate");
  if (c.is_backward())
    c.give("dx", at::gelu_backward(c.tensor("dy"), c.tensor("x"), approximate));
  else
    c.give("y", at::gelu(c.tensor("x"), approximate));
}

/// Two kernels, as models write it: silu, then a product.
void swiglu(const Call& c) {
  const at::Tensor gate = leaf(c, "gate"), up = leaf(c, "up");
  const at::Tensor y = at::silu(gate) * up;
  if (!c.is_backward()) return c.give("y", y);
  const auto d = gradients(y, c.tensor("dy"), {gate, up});
  c.give("dgate", d[0]);
  c.give("dup", d[1]);
}

/// Masks come from torch's own generator, opbound's are Philox words of seed and offset: what can
/// be compared is what keeps all or nothing.
void dropout(const Call& c) {
  const double p = c.number("p");
  require(p == 0 || p == 1,
          "its masks come from a generator of its own, opbound's from (seed, offset, element)");
  require(c.word("dropped") == "product", "it multiplies by the mask: dropped = product");
  if (!c.is_backward()) {
    const auto [y, mask] = at::native_dropout(c.tensor("x"), p, true);
    c.give("y", y);
    return c.give("mask", mask);
  }
  const at::Tensor dy = c.tensor("dy");
  const at::Tensor mask = at::full_like(dy, p == 0, dy.options().dtype(at::kBool));
  c.give("dx", at::native_dropout_backward(dy, mask, p == 0 ? 1 : 0));
}

}  // namespace

// aten/src/ATen/native/cpu/Activation.cpp and cuda/ActivationGelu.cu: x/2 (1 + erf(x / sqrt 2)) and
// x/2 (1 + tanh t), both passes. On the CPU the forward pass goes through oneDNN's eltwise_gelu_erf
// and eltwise_gelu_tanh, which have the same two forms and an erf of their own. silu is
// x / (1 + exp(-x)), its derivative s (1 + x (1 - s)); in 16 bits silu's result, and dy up, are
// stored: no variant is both, so it is the union of two. native_dropout: x mask (1 / (1 - p)).
void add_activations(Kernels& kernels) {
  kernels.push_back({"gelu", nullptr, "one_plus_erf|one_plus_tanh", in_fp32_since_2, gelu});
  kernels.push_back({"swiglu", nullptr, "plain|rounded_gate", in_fp32_since_2, swiglu});
  kernels.push_back({"dropout", nullptr, "product", Narrow::in_fp32, dropout});
}

}  // namespace opbound::with_torch
