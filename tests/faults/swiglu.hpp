// Planted faults of swiglu.
#pragma once

#include "ops/swiglu.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace swiglu_faults {

using Op = opbound::swiglu;
using Forward = Op::forward::elements;
using Backward = Op::backward::elements;
using Inputs = std::vector<std::pair<std::string_view, std::string_view>>;

/// y = f(gate, up) in fp32.
template <class F>
std::function<void(const opbound::Op&, const Call&)> forward(F f) {
  return [f](const opbound::Op&, const Call& call) {
    const auto& v = call.forward;
    for (std::int64_t i = 0; i < v[2].count(); ++i)
      v[2].set(i, round_to(format_of(v[2].element),
                           f(static_cast<float>(v[0].at(i)), static_cast<float>(v[1].at(i)))));
  };
}

/// dgate and dup, in fp32, as the pair f(gate, up, dy).
template <class F>
std::function<void(const opbound::Op&, const Call&)> backward(F f) {
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

inline float silu(float x) { return Forward::silu<float>(Op::stable, x); }
inline float slope(float x) { return Backward::derivative<float>(Op::stable, x); }
inline float in_bf16(float x) { return static_cast<float>(round_to(bf16, x)); }

inline Inputs two() { return {{"gate", "normal(sigma=2)"}, {"up", "normal"}}; }
inline Inputs three() { return {{"gate", "normal(sigma=2)"}, {"up", "normal"}, {"dy", "normal"}}; }

inline std::vector<Fault> of_forward() {
  return {
      {"swiglu",
       "overflowing_exp",
       "x / (1 + exp(-x)) below -88.7, where exp is infinite",
       {},
       "fp32",
       {512},
       {{"gate", "uniform(low=-100, high=-60)"}, {"up", "normal(mean=1e30)"}},
       {},
       forward([](float x, float up) { return Forward::silu<float>(Op::plain, x) * up; })},
      {"swiglu",
       "gate_and_up_swapped",
       "silu(up) gate: the halves of a joint projection swapped",
       {},
       "bf16:fp32:bf16",
       {1024},
       two(),
       {},
       forward([](float x, float up) { return silu(up) * x; })},
      {"swiglu",
       "gate_in_bf16",
       "silu(gate) rounded to bf16 where a fused kernel is declared",
       {},
       "bf16:fp32:bf16",
       {1024},
       two(),
       {},
       forward([](float x, float up) { return in_bf16(silu(x)) * up; })},
      {"swiglu",
       "gelu_for_silu",
       "sigma(1.702 x), the sigmoid form of GELU, for sigma(x)",
       {},
       "bf16:fp32:bf16",
       {1024},
       two(),
       {},
       forward([](float x, float up) { return x / (1 + exp(-1.702F * x)) * up; })},
      {"swiglu",
       "truncated_store",
       "the output truncated instead of rounded to nearest",
       {},
       "fp16:fp32:fp16",
       {1024},
       two(),
       {},
       truncating(2)},
      {"swiglu",
       "fast_sigmoid",
       "sigma by 1/2 + x/4 near 0",
       {},
       "fp32",
       {1024},
       {{"gate", "uniform(low=-0.1, high=0.1)"}, {"up", "normal"}},
       {},
       forward([](float x, float up) { return x * (0.5F + 0.25F * x) * up; })},
      {"swiglu",
       "clamped_tail",
       "0 below gate = -10 instead of a tail",
       {},
       "fp32",
       {512},
       {{"gate", "uniform(low=-20, high=0)"}, {"up", "normal"}},
       {},
       forward([](float x, float up) { return x < -10 ? 0.0F : silu(x) * up; })},
  };
}

inline std::vector<Fault> of_backward() {
  constexpr auto local = Direction::backward_local;
  return {
      {"swiglu",
       "no_slope_term",
       "dgate = dy up sigma(gate), without x sigma'",
       local,
       "bf16:fp32:bf16",
       {1024},
       three(),
       {},
       backward([](float x, float up, float dy) {
         return std::pair(dy * up / (1 + exp(-x)), dy * silu(x));
       })},
      {"swiglu",
       "sigma_in_bf16",
       "sigma rounded to bf16 in s (1 + x (1 - s))",
       local,
       "fp32",
       {1024},
       {{"gate", "uniform(low=-1.3, high=-1.25)"}, {"up", "normal"}, {"dy", "normal"}},
       {},
       backward([](float x, float up, float dy) {
         const float s = in_bf16(1 / (1 + exp(-x)));
         return std::pair(dy * up * (s * (1 + x * (1 - s))), dy * silu(x));
       })},
      {"swiglu",
       "up_forgotten",
       "dgate = dy silu'(gate)",
       local,
       "fp32",
       {1024},
       three(),
       {},
       backward([](float x, float, float dy) { return std::pair(dy * slope(x), dy * silu(x)); })},
      {"swiglu",
       "upstream_ignored",
       "dup = silu(gate), the upstream gradient taken for 1",
       local,
       "fp32",
       {1024},
       three(),
       {},
       backward(
           [](float x, float up, float dy) { return std::pair(dy * up * slope(x), silu(x)); })},
      {"swiglu",
       "upstream_product_in_bf16",
       "dy up rounded to bf16 first",
       local,
       "bf16:fp32:bf16",
       {1024},
       three(),
       {},
       backward([](float x, float up, float dy) {
         return std::pair(in_bf16(dy * up) * slope(x), dy * silu(x));
       })},
  };
}

}  // namespace swiglu_faults

inline std::vector<Fault> swiglu() {
  std::vector<Fault> all = swiglu_faults::of_forward();
  for (Fault& f : swiglu_faults::of_backward()) all.push_back(std::move(f));
  return all;
}

}  // namespace opbound::faults
