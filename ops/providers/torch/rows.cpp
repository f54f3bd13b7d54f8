// Softmax and its relatives: one row after the other.
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

/// log_softmax, nll_loss and, smoothed, a sum of log-probabilities; no lse is saved.
void cross_entropy(const Call& c) {
  const std::string reduction = c.word("reduction");
  const auto loss = [&](std::int64_t reduced) {
    return at::cross_entropy_loss(c.tensor("logits"), c.tensor("targets"), {}, reduced,
                                  c.whole("ignore_index"), c.number("label_smoothing"));
  };
  c.give("loss", loss(at::Reduction::None));
  if (reduction == "none") return;
  c.give("reduced",
         loss(reduction == "mean" ? at::Reduction::Mean : at::Reduction::Sum).unsqueeze(0));
}

}  // namespace

// aten/src/ATen/native/cpu/SoftMaxKernel.cpp: exp(x - max) times 1 / sum, or divided by it, by
// version and format; (x - max) - log sum; backward (dy - sum y dy) y. On CUDA softmax's backward
// pass is given y dy, stored (cuda/SoftMax.cu, softmax_backward_cuda_out). logsumexp is five
// kernels, cross_entropy three or more, each stored. Its backward pass is not judged: it takes
// exp((x - max) - log sum) from stored log-probabilities, two roundings of their size where every
// variant of opbound's has one.
void add_rows(Kernels& kernels) {
  const char* softmaxes =
      is_on_cuda ? "stored_product|log_of_sum" : "division|reciprocal|log_of_sum";
  kernels.push_back({"softmax", nullptr, softmaxes, in_fp32_since_2, softmax});
  kernels.push_back({"logsumexp", nullptr, "shifted", Narrow::as_stored, logsumexp});
  kernels.push_back({"cross_entropy", "forward", "division", Narrow::as_stored, cross_entropy});
}

}  // namespace opbound::with_torch
