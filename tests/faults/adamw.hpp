// Planted faults of AdamW.
#pragma once

#include "ops/adamw.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace adamw_faults {

using Op = opbound::adamw::forward;

/// One step in double as scaled_step has it, with one line that may be wrong.
struct Rules {
  bool corrects = true;  ///< the bias
  int step_is_off = 0;
  bool coupled_decay = false;  ///< weight_decay w is added to the gradient
  bool decay_without_lr = false;
  bool eps_inside = false;             ///< sqrt(v + eps)
  bool eps_before_correction = false;  ///< (sqrt(v) + eps) / sqrt(c2)
  bool swaps_betas = false;
  bool swaps_moments = false;  ///< in memory: m is read where v stands
  bool looks = true;           ///< at found_inf
  bool counts_skipped = false;
  bool absolute = false;  ///< |m| for m
  double gradient_factor = 1;
  Format moments = fp64;  ///< what m and v are rounded to when they are stored
  Format low = fp64;      ///< what w is rounded to
  Format betas = fp64;
};

struct State {
  double w, m, v;
};

inline State stepped(const Rules& r, const opbound::adamw::Attributes& a, State s, double x,
                     double t) {
  double b1 = round_to(r.betas, a.beta1), b2 = round_to(r.betas, a.beta2);
  if (r.swaps_betas) std::swap(b1, b2);
  const double c1 = r.corrects ? 1 - std::pow(a.beta1, t + r.step_is_off) : 1;
  const double c2 = r.corrects ? 1 - std::pow(a.beta2, t + r.step_is_off) : 1;
  x *= r.gradient_factor;
  if (r.coupled_decay) x += a.weight_decay * s.w;
  if (r.swaps_moments) std::swap(s.m, s.v);
  s.m = round_to(r.moments, b1 * s.m + (1 - b1) * x);
  s.v = round_to(r.moments, b2 * s.v + (1 - b2) * x * x);
  const double size = r.eps_inside              ? std::sqrt(s.v / c2 + a.eps)
                      : r.eps_before_correction ? (std::sqrt(s.v) + a.eps) / std::sqrt(c2)
                                                : std::sqrt(s.v / c2) + a.eps;
  const double decay = r.coupled_decay      ? 0
                       : r.decay_without_lr ? a.weight_decay
                                            : a.lr * a.weight_decay;
  const double m = r.absolute ? std::fabs(s.m) : s.m;
  s.w = round_to(r.low, s.w * (1 - decay) - a.lr * (m / c1) / size);
  return s;
}

inline Kernel steps_by(const Rules& r) {
  return [r](const opbound::Op&, const Call& call) {
    const auto a = from_bytes<opbound::adamw::Attributes>(call.attributes);
    const auto& views = call.forward;
    const std::int64_t n = call.sizes[1];
    for (std::int64_t i = 0; i < n; ++i) {
      State s{views[Op::w].at(i), views[Op::m].at(i), views[Op::v].at(i)};
      auto t = static_cast<double>(a.step - 1);
      for (std::int64_t k = 0; k < call.sizes[0]; ++k) {
        const bool skips = r.looks && views[Op::found_inf].at(k) != 0;
        if (!skips || r.counts_skipped) ++t;
        if (!skips) s = stepped(r, a, s, views[Op::g].at(k * n + i), t);
        const auto put = [&](int place, double& x) {
          x = round_to(format_of(views[place].element), x);
          views[place].set(k * n + i, x);
        };
        put(Op::next_w, s.w);
        put(Op::next_m, s.m);
        put(Op::next_v, s.v);
      }
    }
  };
}

inline FaultyKernel optimizer(const Rules& r) { return {steps_by(r), steps_by({})}; }

}  // namespace adamw_faults

inline std::vector<Fault> adamw() {
  using namespace adamw_faults;
  const auto with = [](std::string_view name, std::string_view what, Rules rules,
                       Attributes attributes = {}, std::string_view skipped = "mask(p=0)") {
    return planted("adamw", name, what, {}, "fp32", {12, 32},
                   {{"w", "normal(sigma=0.02)"},
                    {"g", "normal(sigma=1e-2)"},
                    {"m", "normal(sigma=1e-3)"},
                    {"v", "uniform(low=1e-5, high=1e-4)"},
                    {"found_inf", skipped}},
                   std::move(attributes), optimizer(rules));
  };
  return {
      with("no_bias_correction", "c1 = c2 = 1", {.corrects = false}),
      with("step_plus_one", "bias corrections of the next step", {.step_is_off = 1}),
      with("coupled_weight_decay", "weight_decay w added to the gradient: Adam, not AdamW",
           {.coupled_decay = true}),
      with("weight_decay_without_lr", "w (1 - weight_decay)", {.decay_without_lr = true}),
      with("eps_inside_the_root", "sqrt(v / c2 + eps)", {.eps_inside = true}, {{"eps", 1e-3}}),
      with("eps_before_correction", "(sqrt(v) + eps) / sqrt(c2)", {.eps_before_correction = true},
           {{"eps", 1e-5}}),
      with("betas_swapped", "beta1 for v and beta2 for m", {.swaps_betas = true}),
      with("moments_swapped", "m is read where v stands", {.swaps_moments = true}),
      with("found_inf_ignored", "a skipped step is taken", {.looks = false}, {}, "mask(p=0.5)"),
      with("skipped_step_counts", "a skipped step counts for the bias corrections",
           {.counts_skipped = true}, {}, "mask(p=0.5)"),
      with("gradient_still_scaled", "the gradients were not unscaled: m and v are too large",
           {.gradient_factor = 1024}),
      with("absolute_first_moment", "|m|: the update always has one sign", {.absolute = true}),
      with("betas_in_bf16", "beta2 = 0.999 is 1 in bf16: v never decays", {.betas = bf16}),
      with("moments_in_bf16", "m and v stored in bf16 where fp32 is declared", {.moments = bf16}),
      with("no_master_weights", "w kept in bf16: small updates are lost", {.low = bf16}),
  };
}

}  // namespace opbound::faults
