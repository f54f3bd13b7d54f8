// Planted faults of residual.
#pragma once

#include "ops/residual.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace residual_faults {

/// y = f(x, r), and x + scale r for the control.
template <class F>
FaultyKernel forward(F f, float scale = 1) {
  return elementwise("y", {"x", "r"}, f, [=](float x, float r) { return x + scale * r; });
}

template <class F, class G>
Kernel gradients_by(F f, G g) {
  return [=](const Op& op, const Call& call) {
    each("dx", {"dy"}, f)(op, call);
    each("dr", {"dy"}, g)(op, call);
  };
}
/// dx = f(dy), dr = g(dy), and dy and scale dy for the control.
template <class F, class G>
FaultyKernel backward(F f, G g, float scale = 1) {
  return {gradients_by(f, g), gradients_by(as_is, [=](float dy) { return scale * dy; })};
}

}  // namespace residual_faults

inline std::vector<Fault> residual() {
  using namespace residual_faults;
  constexpr auto local = Direction::backward_local;
  const Inputs both{{"x", "normal"}, {"r", "normal"}}, dy{{"dy", "normal"}};
  const Attributes tenth{{"scale", 0.1}}, in_bf16_stream{{"stream", std::string("bf16")}};
  return {
      planted("residual", "stream_in_bf16",
              "the sum stored in bf16 where a stream in fp32 is declared", {}, "bf16:fp32:bf16",
              {1024}, both, {}, forward([](float x, float r) { return in_bf16(x + r); })),
      planted("residual", "branch_lost", "x alone: a branch below an ulp of the stream skipped", {},
              "bf16:fp32:bf16", {512},
              {{"x", "constant(value=1)"}, {"r", "constant(value=0.0078125)"}}, in_bf16_stream,
              forward([](float x, float) { return x; })),
      planted("residual", "scale_on_the_stream", "scale x + r", {}, "fp32", {1024}, both, tenth,
              forward([](float x, float r) { return 0.1F * x + r; }, 0.1F)),
      planted("residual", "scale_on_both", "scale (x + r)", {}, "bf16:fp32:bf16", {1024}, both,
              tenth, forward([](float x, float r) { return 0.1F * (x + r); }, 0.1F)),
      planted("residual", "scale_in_bf16", "scale rounded to bf16", {}, "fp32", {1024}, both, tenth,
              forward([](float x, float r) { return x + in_bf16(0.1F) * r; }, 0.1F)),
      planted("residual", "truncated_store", "the output truncated instead of rounded to nearest",
              {}, "bf16:fp32:bf16", {1024}, both, in_bf16_stream, truncating()),
      planted("residual", "branch_gradient_unscaled", "dr = dy", local, "fp32", {1024}, dy, tenth,
              backward(as_is, as_is, 0.1F)),
      planted("residual", "stream_gradient_scaled", "dx = scale dy", local, "bf16:fp32:bf16",
              {1024}, dy, tenth,
              backward([](float g) { return 0.1F * g; }, [](float g) { return 0.1F * g; }, 0.1F)),
      planted("residual", "gradient_in_bf16", "the stream's gradient passed on in bf16", local,
              "bf16:fp32:bf16", {1024}, dy, {}, backward(in_bf16, as_is)),
  };
}

}  // namespace opbound::faults
