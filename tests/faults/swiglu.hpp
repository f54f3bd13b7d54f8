// Planted faults of swiglu.
#pragma once

#include "ops/swiglu.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace swiglu_faults {

using Op = opbound::swiglu;
using Forward = Op::forward::elements;
using Backward = Op::backward::elements;

inline float silu(float x) { return Forward::silu<float>(Op::stable, x); }
inline float slope(float x) { return Backward::derivative<float>(Op::stable, x); }

/// y = f(gate, up).
template <class F>
FaultyKernel forward(F f) {
  return elementwise("y", {"gate", "up"}, f, [](float x, float up) { return silu(x) * up; });
}

/// (dgate, dup) = f(gate, up, dy).
template <class F>
Kernel gradients_by(F f) {
  return [f](const opbound::Op&, const Call& call) {
    const auto& v = call.backward;
    for (std::int64_t i = 0; i < v[3].count(); ++i) {
      const std::pair<float, float> d =
          f(static_cast<float>(v[0].at(i)), static_cast<float>(v[1].at(i)),
            static_cast<float>(v[2].at(i)));
      v[3].set(i, round_to(format_of(v[3].element), d.first));
      v[4].set(i, round_to(format_of(v[4].element), d.second));
    }
  };
}
template <class F>
FaultyKernel backward(F f) {
  return {gradients_by(f), gradients_by([](float x, float up, float dy) {
            return std::pair(dy * up * slope(x), dy * silu(x));
          })};
}

inline Inputs two() { return {{"gate", "normal(sigma=2)"}, {"up", "normal"}}; }
inline Inputs three() { return {{"gate", "normal(sigma=2)"}, {"up", "normal"}, {"dy", "normal"}}; }

inline std::vector<Fault> of_forward() {
  return {
      planted("swiglu", "overflowing_exp", "x / (1 + exp(-x)) below -88.7, where exp is infinite",
              {}, "fp32", {512},
              {{"gate", "uniform(low=-100, high=-60)"}, {"up", "normal(mean=1e30)"}}, {},
              forward([](float x, float up) { return Forward::silu<float>(Op::plain, x) * up; })),
      planted("swiglu", "gate_and_up_swapped",
              "silu(up) gate: the halves of a joint projection swapped", {}, "bf16:fp32:bf16",
              {1024}, two(), {}, forward([](float x, float up) { return silu(up) * x; })),
      planted("swiglu", "gate_in_bf16",
              "silu(gate) rounded to bf16 where a fused kernel is declared", {}, "bf16:fp32:bf16",
              {1024}, two(), {}, forward([](float x, float up) { return in_bf16(silu(x)) * up; })),
      planted("swiglu", "gelu_for_silu", "sigma(1.702 x), the sigmoid form of GELU, for sigma(x)",
              {}, "bf16:fp32:bf16", {1024}, two(), {},
              forward([](float x, float up) { return x / (1 + exp(-1.702F * x)) * up; })),
      planted("swiglu", "truncated_store", "the output truncated instead of rounded to nearest", {},
              "fp16:fp32:fp16", {1024}, two(), {}, truncating()),
      planted("swiglu", "fast_sigmoid", "sigma by 1/2 + x/4 near 0", {}, "fp32", {1024},
              {{"gate", "uniform(low=-0.1, high=0.1)"}, {"up", "normal"}}, {},
              forward([](float x, float up) { return x * (0.5F + 0.25F * x) * up; })),
      planted("swiglu", "clamped_tail", "0 below gate = -10 instead of a tail", {}, "fp32", {512},
              {{"gate", "uniform(low=-20, high=0)"}, {"up", "normal"}}, {},
              forward([](float x, float up) { return x < -10 ? 0.0F : silu(x) * up; })),
  };
}

inline std::vector<Fault> of_backward() {
  constexpr auto local = Direction::backward_local;
  return {
      planted("swiglu", "no_slope_term", "dgate = dy up sigma(gate), without x sigma'", local,
              "bf16:fp32:bf16", {1024}, three(), {}, backward([](float x, float up, float dy) {
                return std::pair(dy * up / (1 + exp(-x)), dy * silu(x));
              })),
      planted("swiglu", "sigma_in_bf16", "sigma rounded to bf16 in s (1 + x (1 - s))", local,
              "fp32", {1024},
              {{"gate", "uniform(low=-1.3, high=-1.25)"}, {"up", "normal"}, {"dy", "normal"}}, {},
              backward([](float x, float up, float dy) {
                const float s = in_bf16(1 / (1 + exp(-x)));
                return std::pair(dy * up * (s * (1 + x * (1 - s))), dy * silu(x));
              })),
      planted("swiglu", "up_forgotten", "dgate = dy silu'(gate)", local, "fp32", {1024}, three(),
              {}, backward([](float x, float, float dy) {
                return std::pair(dy * slope(x), dy * silu(x));
              })),
      planted("swiglu", "upstream_ignored", "dup = silu(gate), the upstream gradient taken for 1",
              local, "fp32", {1024}, three(), {}, backward([](float x, float up, float dy) {
                return std::pair(dy * up * slope(x), silu(x));
              })),
      planted("swiglu", "upstream_product_in_bf16", "dy up rounded to bf16 first", local,
              "bf16:fp32:bf16", {1024}, three(), {}, backward([](float x, float up, float dy) {
                return std::pair(in_bf16(dy * up) * slope(x), dy * silu(x));
              })),
  };
}

}  // namespace swiglu_faults

inline std::vector<Fault> swiglu() {
  return joined(swiglu_faults::of_forward(), swiglu_faults::of_backward());
}

}  // namespace opbound::faults
