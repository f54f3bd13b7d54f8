// What happens to gradients before a step: norms, clipping, unscaling, the scale itself.
#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

/// The norm of the shards' norms, as torch.nn.utils.clip_grad_norm_ takes it; of one shard its
/// norm.
void global_norm(const Call& c) {
  const at::Tensor g = c.tensor("g");
  std::vector<at::Tensor> norms;
  for (std::int64_t s = 0; s < g.size(0); ++s) norms.push_back(at::linalg_vector_norm(g[s]));
  require(norms.size() == 1 || g.size(1) >= 8,
          "it takes the norm of rounded norms, which counts where they are of a few numbers");
  require(!norms.empty(), "it stacks no empty list of norms");
  c.give("norm",
         (norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms))).unsqueeze(0));
}

/// torch.nn.utils.clip_grads_with_norm_
void clip(const Call& c) {
  const at::Tensor g = c.tensor("g");
  require(c.format_of("norm") == g.scalar_type(), "its norm has the format of the gradients");
  const at::Tensor total = c.tensor("norm").squeeze(0);
  const at::Tensor coefficient =
      at::clamp(c.number("max_norm") / (total + c.number("eps")), {}, at::Scalar(1.0));
  c.give("coefficient", coefficient.unsqueeze(0));
  c.give("clipped", g * coefficient);
}

/// As torch.amp.GradScaler does: times the rounded 1 / scale.
void unscale(const Call& c) {
  at::Tensor g = c.tensor("g").clone();
  require(g.scalar_type() != at::kDouble, "it holds 1 / scale in fp32");
  at::Tensor found = at::zeros({1}, g.options().dtype(at::kFloat));
  const at::Tensor inverse = c.tensor("scale").to(at::kDouble).reciprocal().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(g, found, inverse);
  c.give("unscaled", g);
  c.give("found_inf", found.to(at::kBool));
}

void loss_scaler(const Call& c) {
  require(c.word("scale_format") == "fp32", "it holds the scale in fp32");
  const at::Tensor found = c.tensor("found_inf");
  const at::TensorOptions options = found.options().dtype(at::kFloat);
  at::Tensor scale = at::full({1}, c.number("init_scale"), options);
  at::Tensor tracker = at::zeros({1}, options.dtype(at::kInt));
  std::vector<at::Tensor> scales, trackers;
  for (std::int64_t t = 0; t < found.size(0); ++t) {
    at::_amp_update_scale_(scale, tracker, found[t].to(at::kFloat).unsqueeze(0),
                           c.number("growth_factor"), c.number("backoff_factor"),
                           c.whole("growth_interval"));
    scales.push_back(scale.clone());
    trackers.push_back(tracker.clone());
  }
  require(!scales.empty(), "no steps");
  c.give("scale", at::cat(scales));
  c.give("growth_tracker", at::cat(trackers).to(at::kLong));
}

}  // namespace

// Each of these is one kernel of torch after the other, stored. cpu/ReduceOpsKernel.cpp: a norm is
// the root of a sum of squares. cpu/AmpGradScalerKernels.cpp (CUDA: cuda/AmpKernels.cu): g
// inv_scale in fp32.
void add_gradients(Kernels& kernels) {
  kernels.push_back({"global_norm", "forward", "plain", Narrow::as_stored, global_norm});
  kernels.push_back({"clip", "forward", "division", Narrow::as_stored, clip});
  kernels.push_back({"unscale", "forward", "reciprocal", Narrow::in_fp32, unscale});
  kernels.push_back({"loss_scaler", "forward", "products", Narrow::in_fp32, loss_scaler});
}

}  // namespace opbound::with_torch
