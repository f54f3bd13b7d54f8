// Planted faults of recompute: what goes wrong when a block is run again.
#pragma once

#include "ops/recompute.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace recompute_faults {

/// The right passes, x kept as f(kept, i).
template <class F>
FaultyKernel from_other(F f) {
  return with_saved("kept", f);
}
/// The same from x or y of the forward pass.
template <class F>
FaultyKernel from_tensor(int tensor, F f) {
  return {
      [=](const Op& op, const Call& call) {
        const TensorView other = call.forward[static_cast<std::size_t>(tensor)];
        from_other([=](const TensorView&, std::int64_t i) { return f(other.at(i)); }).run(op, call);
      },
      own};
}

/// The right backward pass, its dx made anew by f(x, gain, dy).
template <class F>
Kernel gradients_by(F f) {
  return [f](const Op& op, const Call& call) {
    op.run(call);
    const Judged t(op, call);
    for (std::int64_t i = 0; i < t("dx").count(); ++i)
      t.put("dx", i, f(t.get("kept", i), t.get("gain", i % call.sizes[1]), t.get("dy", i)));
  };
}
inline float slope(int variant, float x) {
  return opbound::gelu::backward::elements::derivative<float>(variant, x);
}
template <class F>
FaultyKernel dx_by(F f) {
  return {gradients_by(f), gradients_by([](float x, float gain, float dy) {
            return dy * gain * slope(opbound::gelu::erfc_form, x);
          })};
}

/// dgain of the rows from `first` on.
inline Kernel gain_from(std::int64_t first) {
  return [=](const Op& op, const Call& call) {
    op.run(call);
    const Judged t(op, call);
    const std::int64_t rows = call.sizes[0], n = call.sizes[1];
    for (std::int64_t c = 0; c < n; ++c) {
      float sum = 0;
      for (std::int64_t r = first; r < rows; ++r)
        sum += t.get("dy", r * n + c) * opbound::gelu::forward::elements::value<float>(
                                            opbound::gelu::erfc_form, t.get("kept", r * n + c));
      t.put("dgain", c, sum);
    }
  };
}

}  // namespace recompute_faults

inline std::vector<Fault> recompute() {
  using namespace recompute_faults;
  constexpr auto full = Direction::backward_full, local = Direction::backward_local;
  const Inputs all{{"x", "normal(sigma=2)"}, {"gain", "normal(mean=1)"}, {"dy", "normal"}};
  const Attributes in_fp32{{"stored_format", std::string("fp32")}};
  const std::vector<std::int64_t> shape{32, 8};
  return {
      planted("recompute", "kept_in_bf16", "x kept in bf16 where fp32 is declared", full, "fp32",
              shape, all, in_fp32, from_other([](const TensorView& x, std::int64_t i) {
                return round_to(bf16, x.at(i));
              })),
      planted("recompute", "kept_truncated",
              "x truncated where it is rounded to nearest to be kept", full, "fp32", shape, all, {},
              from_tensor(opbound::recompute::forward::x,
                          [](double x) { return truncate_to(bf16, x); })),
      planted("recompute", "output_for_input", "the block run again from its output", full,
              "bf16:fp32:bf16", shape, all, {},
              from_tensor(opbound::recompute::forward::y, [](double y) { return y; })),
      planted("recompute", "stale_input", "the input of another micro-batch: rows shifted by one",
              full, "bf16:fp32:bf16", shape, all, {},
              from_other(
                  [](const TensorView& x, std::int64_t i) { return x.at((i + 8) % x.count()); })),
      planted("recompute", "other_algorithm", "run again with 1 + erf where erfc ran first", local,
              "fp32", shape,
              {{"x", "uniform(low=-5, high=-3)"}, {"gain", "normal"}, {"dy", "normal"}}, in_fp32,
              with_call([](Call& c) { c.variant = opbound::recompute::one_plus_erf; })),
      planted("recompute", "tanh_form", "run again as the tanh approximation", local,
              "bf16:fp32:bf16", shape, all, {}, dx_by([](float x, float gain, float dy) {
                return dy * gain * slope(opbound::gelu::sigmoid, x);
              })),
      planted(
          "recompute", "gain_forgotten", "dx = dy gelu'(x)", local, "fp32", shape, all, {},
          dx_by([](float x, float, float dy) { return dy * slope(opbound::gelu::erfc_form, x); })),
      planted("recompute", "gain_gradient_of_one_row", "dgain of the last row, not of the sum",
              local, "fp32", shape, all, {}, FaultyKernel(gain_from(31), gain_from(0))),
  };
}

}  // namespace opbound::faults
