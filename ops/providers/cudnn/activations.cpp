// GELU, as a graph of one operation, and why dropout is not judged.
#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/plan.hpp"

namespace opbound::with_cudnn {
namespace {

namespace fe = cudnn_frontend;

fe::PointwiseMode_t mode_of(const Call& c) {
  const bool is_tanh = c.word("approximate") == "tanh";
  if (c.is_backward())
    return is_tanh ? fe::PointwiseMode_t::GELU_APPROX_TANH_BWD : fe::PointwiseMode_t::GELU_BWD;
  return is_tanh ? fe::PointwiseMode_t::GELU_APPROX_TANH_FWD : fe::PointwiseMode_t::GELU_FWD;
}

void gelu(const Call& c, Plan& plan) {
  c.require_packed();
  const std::int64_t n = c.tensor("x").size[0];
  const Layout line{{1, 1, n}, {n, n, 1}};
  const auto operation = fe::graph::Pointwise_attributes().set_mode(mode_of(c));
  const Tensor x = plan.input(c, "x", line);
  if (!c.is_backward()) return plan.output(plan.graph().pointwise(x, operation), c, "y", line);
  const Tensor dy = plan.input(c, "dy", line);
  plan.output(plan.graph().pointwise(dy, x, operation), c, "dx", line);
}

/// Masks are bits of a format of its own, made by its own generator: neither is there one to judge,
/// nor does it take ours.
void dropout(const Call&) {
  throw Unsupported(
      "its masks come from a generator of its own, opbound's from (seed, offset, element), and it "
      "keeps them in a format that it does not tell");
}

}  // namespace

// cudnnPointwiseMode_t in the documentation of cuDNN: GELU_APPROX_TANH is
// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); of GELU no formula is given, so that it may have
// either erf or erfc.
void add_activations(Kernels& kernels) {
  kernels.push_back({"gelu", nullptr, "one_plus_erf|erfc|one_plus_tanh", false, gelu, nullptr});
  kernels.push_back({"dropout", nullptr, "product", true, nullptr, dropout});
}

}  // namespace opbound::with_cudnn
