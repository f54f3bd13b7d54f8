// AdamW in three implementations: torch::optim::AdamW ("single"), one list of tensors for each step
// of the formula ("foreach"), and one kernel ("fused").
#include <torch/optim/adamw.h>
#include <torch/version.h>

#include <cstdlib>
#include <sstream>
#include <type_traits>

#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

struct Hyper {
  double lr, beta1, beta2, eps, decay;

  explicit Hyper(const Call& c)
      : lr(c.number("lr")),
        beta1(c.number("beta1")),
        beta2(c.number("beta2")),
        eps(c.number("eps")),
        decay(c.number("weight_decay")) {}
};

struct State {
  at::Tensor w, m, v;
};

/// Where the optimizer has its state of a parameter, whose key has been its address as a number and
/// as text.
template <class Optimizer>
auto& state_of(Optimizer& optimizer, const at::Tensor& w) {
  using Key = typename std::decay_t<decltype(optimizer.state())>::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream address;
    address << w.unsafeGetTensorImpl();
    return optimizer.state()[address.str()];
  } else {
    return optimizer.state()[w.unsafeGetTensorImpl()];
  }
}

/// The optimizer's own state is set to what the step starts from.
void step_single(const Hyper& h, State& s, const at::Tensor& g, std::int64_t t) {
  at::Tensor w = s.w.requires_grad_(true);
  w.mutable_grad() = g;
  torch::optim::AdamW optimizer(
      {w},
      torch::optim::AdamWOptions(h.lr).betas({h.beta1, h.beta2}).eps(h.eps).weight_decay(h.decay));
  auto state = std::make_unique<torch::optim::AdamWParamState>();
  state->step(t - 1);
  state->exp_avg(s.m);
  state->exp_avg_sq(s.v);
  state_of(optimizer, w) = std::move(state);
  optimizer.step();
  s.w = w.detach();
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

/// The steps of torch/optim/adamw.py, _multi_tensor_adamw.
void step_foreach(const Hyper& h, State& s, const at::Tensor& g, std::int64_t t) {
  const double correction1 = 1 - std::pow(h.beta1, t), correction2 = 1 - std::pow(h.beta2, t);
  std::vector<at::Tensor> w{s.w}, m{s.m}, v{s.v}, gradients{g};
  if (h.decay != 0) at::_foreach_mul_(w, 1 - h.lr * h.decay);
  at::_foreach_lerp_(m, gradients, 1 - h.beta1);
  at::_foreach_mul_(v, h.beta2);
  at::_foreach_addcmul_(v, gradients, gradients, 1 - h.beta2);
  std::vector<at::Tensor> size = at::_foreach_sqrt(v);
  at::_foreach_div_(size, std::sqrt(correction2));
  at::_foreach_add_(size, h.eps);
  at::_foreach_addcdiv_(w, m, size, at::Scalar(-h.lr / correction1));
}

void step_fused(const Hyper& h, State& s, const at::Tensor& g, std::int64_t t) {
  const at::Tensor step = at::full({}, static_cast<double>(t), s.w.options().dtype(at::kFloat));
  at::_fused_adamw_({s.w}, {g}, {s.m}, {s.v}, {}, {step}, h.lr, h.beta1, h.beta2, h.decay, h.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

#else

void step_foreach(const Hyper&, State&, const at::Tensor&, std::int64_t) {
  throw Unsupported("it has no _foreach_lerp_");
}
void step_fused(const Hyper&, State&, const at::Tensor&, std::int64_t) {
  throw Unsupported("it has no _fused_adamw_ for all devices");
}

#endif

void adamw(const Call& c) {
  c.require_as_computed({"hyper_format"});
  const Hyper h(c);
  const at::Tensor g = c.tensor("g"), found = c.tensor("found_inf");
  State s{c.tensor("w").clone(), c.tensor("m").clone(), c.tensor("v").clone()};
  require(g.scalar_type() == s.w.scalar_type(), "its gradients have the format of the weights");
  const std::string implementation = adamw_implementation();
  const auto step = implementation == "fused"     ? step_fused
                    : implementation == "foreach" ? step_foreach
                                                  : step_single;
  std::vector<at::Tensor> w, m, v;
  std::int64_t t = c.whole("step");
  for (std::int64_t k = 0; k < g.size(0); ++k) {
    // GradScaler does not call step() where found_inf is set
    if (!found.defined() || !found[k].item<bool>()) step(h, s, g[k].clone(), t++);
    w.push_back(s.w.detach().clone());
    m.push_back(s.m.clone());
    v.push_back(s.v.clone());
  }
  require(!w.empty(), "no steps");
  c.give("next_w", at::stack(w));
  c.give("next_m", at::stack(m));
  c.give("next_v", at::stack(v));
  if (c.has("low_w")) c.give("low_w", at::stack(w).to(c.format_of("low_w")));
}

}  // namespace

const char* adamw_implementation() {
  constexpr const char* name = "OPBOUND_TORCH_ADAMW";
  const char* chosen = std::getenv(name);
  if (chosen == nullptr) return "single";
  for (const char* known : {"single", "foreach", "fused"})
    if (std::string_view(chosen) == known) return known;
  throw wrong_setting(name, chosen, "single, foreach or fused");
}

// All three: w (1 - lr decay) - (lr / c1) m / (sqrt(v) / sqrt(c2) + eps), constants in double; in
// 16 bits single and foreach store the result of every step of the formula.
void add_adamw(Kernels& kernels) {
  kernels.push_back({"adamw", "forward", "scaled_step", Narrow::as_stored, adamw});
}

}  // namespace opbound::with_torch
