// Layer and root mean square normalisation.
#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/plan.hpp"

namespace opbound::with_cudnn {
namespace {

namespace fe = cudnn_frontend;

/// Rows as cuDNN's examples describe them: images of one pixel, a channel for each column.
struct Rows {
  Layout matrix, weights, statistics;

  explicit Rows(const Call& c) {
    c.require_packed();
    c.require_as_computed({"eps_format", "xhat_format"});
    const std::int64_t rows = c.tensor("x").size[0], n = c.tensor("x").size[1];
    matrix = {{rows, n, 1, 1}, {n, 1, n, n}};
    weights = {{1, n, 1, 1}, {n, 1, n, n}};
    statistics = {{rows, 1, 1, 1}, {1, 1, 1, 1}};
  }
};

/// What multiplies xhat: nothing, gamma, or gamma and an offset, added in fp32.
Tensor scale_of(const Call& c, Plan& plan, const Layout& weights) {
  if (!c.has("gamma")) return nullptr;
  const Tensor gamma = plan.input(c, "gamma", weights);
  const double offset = c.number("weight_offset");
  if (offset == 0) return gamma;
  const Tensor sum =
      plan.graph().pointwise(gamma, plan.constant(offset),
                             fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  sum->set_data_type(fe::DataType_t::FLOAT).set_dim(weights.size);
  return sum;
}

void layer_norm_forward(const Call& c, Plan& plan) {
  const Rows rows(c);
  const Tensor x = plan.input(c, "x", rows.matrix);
  const Tensor scale = scale_of(c, plan, rows.weights);
  const Tensor bias = c.has("beta") ? plan.input(c, "beta", rows.weights) : nullptr;
  Tensor eps = plan.constant(c.number("eps"));
  const auto [y, mean, rstd] =
      plan.graph().layernorm(x, scale, bias,
                             fe::graph::Layernorm_attributes()
                                 .set_forward_phase(fe::NormFwdPhase_t::TRAINING)
                                 .set_epsilon(eps));
  plan.output(y, c, "y", rows.matrix);
  plan.output(mean, c, "mean", rows.statistics);
  plan.output(rstd, c, "rstd", rows.statistics);
}

void layer_norm_backward(const Call& c, Plan& plan) {
  const Rows rows(c);
  const Tensor x = plan.input(c, "x", rows.matrix), dy = plan.input(c, "dy", rows.matrix);
  const Tensor scale = scale_of(c, plan, rows.weights);
  const Tensor mean = plan.input(c, "mean", rows.statistics);
  const Tensor rstd = plan.input(c, "rstd", rows.statistics);
  const auto [dx, dscale, dbias] = plan.graph().layernorm_backward(
      dy, x, scale,
      fe::graph::Layernorm_backward_attributes().set_saved_mean_and_inv_variance(mean, rstd));
  plan.output(dx, c, "dx", rows.matrix);
  if (scale == nullptr) return;
  plan.output(dscale, c, "dgamma", rows.weights);
  if (c.has("dbeta"))
    plan.output(dbias, c, "dbeta", rows.weights);
  else
    plan.discard(dbias, c, "dgamma", rows.weights);
}

void layer_norm(const Call& c, Plan& plan) {
  (c.is_backward() ? layer_norm_backward : layer_norm_forward)(c, plan);
}

void rms_norm(const Call& c, Plan& plan) {
  const Rows rows(c);
  const Tensor x = plan.input(c, "x", rows.matrix);
  const Tensor scale = scale_of(c, plan, rows.weights);
  if (!c.is_backward()) {
    Tensor eps = plan.constant(c.number("eps"));
    const auto [y, rstd] = plan.graph().rmsnorm(x, scale,
                                                fe::graph::Rmsnorm_attributes()
                                                    .set_forward_phase(fe::NormFwdPhase_t::TRAINING)
                                                    .set_epsilon(eps));
    plan.output(y, c, "y", rows.matrix);
    return plan.output(rstd, c, "rstd", rows.statistics);
  }
  const Tensor dy = plan.input(c, "dy", rows.matrix);
  const Tensor rstd = plan.input(c, "rstd", rows.statistics);
  const auto [dx, dscale, dbias] = plan.graph().rmsnorm_backward(
      dy, x, scale, rstd, fe::graph::Rmsnorm_backward_attributes().has_dbias(false));
  plan.output(dx, c, "dx", rows.matrix);
  if (scale != nullptr) plan.output(dscale, c, "dgamma", rows.weights);
}

}  // namespace

// cuDNN's forward kernel stands in its frontend (cudnn_frontend/generated/rms_norm_silu/sm100/
// ln_headers.h, struct Stats and update_norm_stats): each warp makes its mean, a sum times 1/n, and
// then the squares of x - mean; warps and blocks merge means and squares as Chan does, but the mean
// as (na ma + nb mb) (1/n). That merge is no variant of opbound's. Its few roundings of |mean| are
// below the n - 1 that welford's bound counts for its mean, and below those of a sum in any order,
// so that the larger of both bounds holds. Then rsqrt(squares / n + eps) and (x - mean) rstd. Of
// the backward kernels nothing is published: they are one of the forms that cancel nowhere.
void add_normalization(Kernels& kernels) {
  kernels.push_back(
      {"layer_norm", nullptr, "reciprocal|two_pass|welford|scaled", false, layer_norm, nullptr});
  kernels.push_back({"rms_norm", nullptr, "reciprocal|division|scaled", false, rms_norm, nullptr});
}

}  // namespace opbound::with_cudnn
