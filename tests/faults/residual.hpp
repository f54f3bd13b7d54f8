// Planted faults of residual.
#pragma once

#include "ops/residual.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace residual_faults {

using Inputs = std::vector<std::pair<std::string_view, std::string_view>>;

inline float in_bf16(float x) { return static_cast<float>(round_to(bf16, x)); }

/// y = f(x, r) in fp32.
template <class F>
std::function<void(const Op&, const Call&)> forward(F f) {
  return [f](const Op&, const Call& call) {
    const auto& v = call.forward;
    for (std::int64_t i = 0; i < v[2].count(); ++i)
      v[2].set(i, round_to(format_of(v[2].element),
                           f(static_cast<float>(v[0].at(i)), static_cast<float>(v[1].at(i)))));
  };
}

/// dx = f(dy), dr = g(dy) in fp32.
template <class F, class G>
std::function<void(const Op&, const Call&)> backward(F f, G g) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.backward;
    for (std::int64_t i = 0; i < v[0].count(); ++i) {
      const auto dy = static_cast<float>(v[0].at(i));
      v[1].set(i, round_to(format_of(v[1].element), f(dy)));
      v[2].set(i, round_to(format_of(v[2].element), g(dy)));
    }
  };
}

}  // namespace residual_faults

inline std::vector<Fault> residual() {
  using namespace residual_faults;
  constexpr auto local = Direction::backward_local;
  const auto same = [](float x) { return x; };
  const Inputs both{{"x", "normal"}, {"r", "normal"}}, dy{{"dy", "normal"}};
  const std::vector<std::pair<std::string_view, AttributeValue>> tenth{{"scale", 0.1}},
      in_bf16_stream{{"stream", std::string("bf16")}};
  return {
      {"residual",
       "stream_in_bf16",
       "the sum stored in bf16 where a stream in fp32 is declared",
       {},
       "bf16:fp32:bf16",
       {1024},
       both,
       {},
       forward([](float x, float r) { return in_bf16(x + r); })},
      {"residual",
       "branch_lost",
       "x alone: a branch below an ulp of the stream skipped",
       {},
       "bf16:fp32:bf16",
       {512},
       {{"x", "constant(value=1)"}, {"r", "constant(value=0.0078125)"}},
       in_bf16_stream,
       forward([](float x, float) { return x; })},
      {"residual",
       "scale_on_the_stream",
       "scale x + r",
       {},
       "fp32",
       {1024},
       both,
       tenth,
       forward([](float x, float r) { return 0.1F * x + r; })},
      {"residual",
       "scale_on_both",
       "scale (x + r)",
       {},
       "bf16:fp32:bf16",
       {1024},
       both,
       tenth,
       forward([](float x, float r) { return 0.1F * (x + r); })},
      {"residual",
       "scale_in_bf16",
       "scale rounded to bf16",
       {},
       "fp32",
       {1024},
       both,
       tenth,
       forward([](float x, float r) { return x + in_bf16(0.1F) * r; })},
      {"residual",
       "truncated_store",
       "the output truncated instead of rounded to nearest",
       {},
       "bf16:fp32:bf16",
       {1024},
       both,
       in_bf16_stream,
       truncating(2)},
      {"residual",
       "branch_gradient_unscaled",
       "dr = dy",
       local,
       "fp32",
       {1024},
       dy,
       tenth,
       backward(same, same)},
      {"residual",
       "stream_gradient_scaled",
       "dx = scale dy",
       local,
       "bf16:fp32:bf16",
       {1024},
       dy,
       tenth,
       backward([](float g) { return 0.1F * g; }, [](float g) { return 0.1F * g; })},
      {"residual",
       "gradient_in_bf16",
       "the stream's gradient passed on in bf16",
       local,
       "bf16:fp32:bf16",
       {1024},
       dy,
       {},
       backward(in_bf16, same)},
  };
}

}  // namespace opbound::faults
