// What passes tensors on: bias, residual, casts, accumulation, embedding.
#include "ops/providers/torch/autograd.hpp"
#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

/// The backward pass has none of the inputs, whose values it does not need.
void bias(const Call& c) {
  if (!c.is_backward()) return c.give("y", c.tensor("x") + c.tensor("b"));
  const at::Tensor dy = c.tensor("dy");
  const at::Tensor x = at::zeros_like(dy).requires_grad_(true);
  const at::Tensor b = at::zeros({dy.size(1)}, dy.options()).requires_grad_(true);
  const auto d = gradients(x + b, dy, {x, b});
  c.give("dx", d[0]);
  c.give("db", d[1]);
}

void residual(const Call& c) {
  const double scale = c.number("scale");
  if (!c.is_backward()) return c.give("y", at::add(c.tensor("x"), c.tensor("r"), scale));
  const at::Tensor dy = c.tensor("dy");
  require(c.format_of("dx") == dy.scalar_type(), "a stream's gradient has the stream's format");
  const at::Tensor x = at::zeros_like(dy).requires_grad_(true);
  const at::Tensor r = at::zeros_like(c.tensor("dr")).requires_grad_(true);
  const auto d = gradients(at::add(x, r, scale), dy, {x, r});
  c.give("dx", d[0]);
  c.give("dr", d[1]);
}

/// Tensor::to, which is what autocast does.
void cast(const Call& c) {
  c.require_as_computed({"through"});
  require(!c.flag("saturate"), "it does not saturate");
  c.give("y", c.tensor("x").to(c.format_of("y")));
}

/// As backward passes add to .grad, in place; then the division.
void accumulate(const Call& c) {
  const at::Tensor g = c.tensor("g");
  const at::Tensor weights = c.tensor("weights");
  require(!weights.defined() || g.element_size() > 2, "it holds a scalar factor in 16 bits");
  at::Tensor y = at::zeros({g.size(1)}, g.options());
  for (std::int64_t k = 0; k < g.size(0); ++k)
    y.add_(g[k], weights.defined() ? weights[k].item() : at::Scalar(1));
  if (c.word("reduction") == "mean")
    y.div_(weights.defined() ? weights.to(at::kDouble).sum().item()
                             : at::Scalar(static_cast<double>(g.size(0))));
  c.give("y", y);
}

void embedding(const Call& c) {
  const std::int64_t padding = c.whole("padding_idx");
  if (!c.is_backward())
    return c.give("y", at::embedding(c.tensor("table"), c.tensor("index"), padding));
  const std::int64_t vocabulary = c.tensor("dtable").size(0);
  c.give("dtable", at::embedding_dense_backward(c.tensor("dy"), c.tensor("index"), vocabulary,
                                                padding, /*scale_grad_by_freq=*/false));
}

}  // namespace

// add with alpha is x + alpha r, fused or not (aten/src/ATen/native/cpu/BinaryOpsKernel.cpp).
// embedding_dense_backward adds row by row in the format of the gradient (native/Embedding.cpp).
void add_streams(Kernels& kernels) {
  kernels.push_back({"bias", nullptr, "direct", Narrow::in_fp32, bias});
  kernels.push_back({"residual", nullptr, "product_and_sum|fused", in_fp32_since_2, residual});
  kernels.push_back({"cast", "forward", "nearest", Narrow::in_fp32, cast});
  kernels.push_back({"accumulate", "forward", "stored", Narrow::in_fp32, accumulate});
  kernels.push_back({"embedding", nullptr, "gather", Narrow::as_stored, embedding});
}

}  // namespace opbound::with_torch
