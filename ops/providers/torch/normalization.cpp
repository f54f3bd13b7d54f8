// Layer and root mean square normalisation.
#include <torch/version.h>

#include "ops/providers/torch/autograd.hpp"
#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

void require_plain(const Call& c) {
  require(c.number("weight_offset") == 0, "it has no weight_offset");
  c.require_as_computed({"eps_format", "xhat_format"});
}

/// A saved statistic in the format that torch keeps it in: with 16-bit weights, 16 bits. What it
/// did not make itself may not fit.
at::Tensor as_saved(const Call& c, const char* name, at::ScalarType format) {
  const at::Tensor given = c.tensor(name), kept = given.to(format);
  require((kept.to(given.scalar_type()) == given).logical_or(given.isnan()).all().item<bool>(),
          std::string("it keeps ") + name + " in " + name_of(format));
  return kept.unsqueeze(1);
}

void layer_norm(const Call& c) {
  require_plain(c);
  const at::Tensor x = c.tensor("x"), gamma = c.tensor("gamma"), beta = c.tensor("beta");
  const std::vector<std::int64_t> shape{x.size(1)};
  if (!c.is_backward()) {
    const auto [y, mean, rstd] =
        at::native_layer_norm(x, shape, maybe(gamma), maybe(beta), c.number("eps"));
    c.give("y", y);
    c.give_widened("mean", mean.flatten());
    return c.give_widened("rstd", rstd.flatten());
  }
  const at::ScalarType format =
      is_on_cuda && x.scalar_type() != at::kDouble ? at::kFloat : x.scalar_type();
  const auto d = at::native_layer_norm_backward(
      c.tensor("dy"), x, shape, as_saved(c, "mean", format), as_saved(c, "rstd", format),
      maybe(gamma), maybe(gamma.defined() ? at::zeros_like(gamma) : gamma),
      {true, c.has("dgamma"), c.has("dbeta")});
  c.give("dx", std::get<0>(d));
  if (c.has("dgamma")) c.give("dgamma", std::get<1>(d));
  if (c.has("dbeta")) c.give("dbeta", std::get<2>(d));
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

/// rstd by the steps of the composite rms_norm, which does not give it.
at::Tensor reciprocal_root(const at::Tensor& x, double eps) {
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::rsqrt(at::pow(x.to(wide), 2).mean({1}, /*keepdim=*/true).add_(eps)).flatten();
}

/// Are rstd and xhat stored in the format of x, as until 2.4 at least? It shows in the bits.
bool stores_its_steps() {
  const at::Tensor x = at::linspace(0.5, 3, 999, at::kBFloat16).unsqueeze(0), w = x[0].flip(0);
  return at::equal(at::rms_norm(x, {999}, w, 1e-6), at::rms_norm(x, {999}, {}, 1e-6) * w);
}

void rms_norm(const Call& c) {
  require_plain(c);
  const at::Tensor x = leaf(c, "x"), gamma = leaf(c, "gamma");
  const at::Tensor y = at::rms_norm(x, {x.size(1)}, maybe(gamma), c.number("eps"));
  const at::Tensor rstd = reciprocal_root(x.detach(), c.number("eps")).to(c.format_of("rstd"));
  if (!c.is_backward()) {
    c.give("y", y);
    return c.give("rstd", rstd);
  }
  require(at::equal(rstd, c.tensor("rstd")), "it makes rstd again in the backward pass");
  const auto d =
      gradients(y, c.tensor("dy"), gamma.defined() ? std::vector{x, gamma} : std::vector{x});
  c.give("dx", d[0]);
  if (gamma.defined()) c.give("dgamma", d[1]);
}

#endif

}  // namespace

// aten/src/ATen/native/cpu/layer_norm_kernel.cpp: moments by Welford's merging; then, in 1.13 and
// still in 16 bits, x rstd - mean rstd, which is no variant of opbound's. The backward pass is
// a dy gamma + b x + c, b and c from sum dy gamma and sum dy gamma x, which is none either: it is
// judged by every other. With 16-bit weights mean and rstd are kept in 16 bits, and the columns'
// sums. rms_norm is a composite of other kernels (native/layer_norm.cpp), its backward pass theirs:
// rstd dy gamma and a multiple of x are added, which is nearest to from_x. On CUDA these are the
// kernels of layer_norm without a mean (cuda/layer_norm_kernel.cu), the backward pass scaled.
void add_normalization(Kernels& kernels) {
  kernels.push_back({"layer_norm", nullptr, "welford", in_fp32_since_2, layer_norm});
  kernels.push_back({"layer_norm", "backward", "two_pass|reciprocal|recentred|one_pass|scaled",
                     in_fp32_since_2, layer_norm});
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  kernels.push_back({"rms_norm", nullptr, is_on_cuda ? "division|from_x|scaled" : "division|from_x",
                     stores_its_steps() ? Narrow::as_stored : Narrow::in_fp32, rms_norm});
#endif
}

}  // namespace opbound::with_torch
