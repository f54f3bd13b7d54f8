// Softmax and its relatives: one row after the other.
#include "ops/providers/torch/autograd.hpp"
#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

/// The functions that autograd calls, so that the backward pass reads the y it is given.
void softmax(const Call& c) {
  const bool is_log = c.flag("log");
  if (!c.is_backward()) {
    const at::Tensor x = c.tensor("x");
    return c.give("y", is_log ? at::_log_softmax(x, 1, false) : at::_softmax(x, 1, false));
  }
  const at::Tensor y = c.tensor("y"), dy = c.tensor("dy");
  c.give("dx", is_log ? at::_log_softmax_backward_data(dy, y, 1, y.scalar_type())
                      : at::_softmax_backward_data(dy, y, 1, y.scalar_type()));
}

/// Backward: logsumexp_backward of torch/csrc/autograd/FunctionsManual.cpp, which is not exported,
/// step by step: autograd itself would take its own y.
void logsumexp(const Call& c) {
  const at::Tensor x = c.tensor("x");
  if (!c.is_backward()) return c.give("y", at::logsumexp(x, {1}));
  c.give("dx", c.tensor("dy").unsqueeze(1) * (x - c.tensor("y").unsqueeze(1)).exp());
}

std::int64_t reduction_of(const std::string& word) {
  return word == "none"   ? at::Reduction::None
         : word == "mean" ? at::Reduction::Mean
                          : at::Reduction::Sum;
}

/// log_softmax, nll_loss and, smoothed, a sum of log-probabilities; no lse is saved.
void cross_entropy(const Call& c) {
  const at::Tensor x = leaf(c, "logits"), targets = c.tensor("targets");
  const std::string reduction = c.word("reduction");
  const auto loss = [&](std::int64_t reduced) {
    return at::cross_entropy_loss(x, targets, {}, reduced, c.whole("ignore_index"),
                                  c.number("label_smoothing"));
  };
  const at::Tensor asked = loss(reduction_of(reduction));
  if (c.is_backward()) {
    const at::Tensor g = reduction == "none" ? c.tensor("dloss") : c.tensor("dreduced").squeeze(0);
    return c.give("dlogits", gradients(asked, g, {x})[0]);
  }
  c.give("loss", reduction == "none" ? asked : loss(at::Reduction::None));
  if (reduction != "none") c.give("reduced", asked.unsqueeze(0));
}

}  // namespace

// aten/src/ATen/native/cpu/SoftMaxKernel.cpp: exp(x - max) times 1 / sum, or divided by it, by
// version and format; (x - max) - log sum; backward (dy - sum y dy) y. On CUDA softmax's backward
// pass is given y dy, stored (cuda/SoftMax.cu, softmax_backward_cuda_out). logsumexp is five
// kernels, cross_entropy three or more, each stored.
void add_rows(Kernels& kernels) {
  const char* softmaxes =
      is_on_cuda ? "stored_product|log_of_sum" : "division|reciprocal|log_of_sum";
  kernels.push_back({"softmax", nullptr, softmaxes, in_fp32_since_2, softmax});
  kernels.push_back({"logsumexp", nullptr, "shifted", Narrow::as_stored, logsumexp});
  kernels.push_back({"cross_entropy", nullptr, "division", Narrow::as_stored, cross_entropy});
}

}  // namespace opbound::with_torch
