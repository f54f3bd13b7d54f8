// Planted faults of unscale.
#pragma once

#include "ops/unscale.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace unscale_faults {

using Op = opbound::unscale::forward;

/// The right kernel, then unscaled[i] = f(g[i], scale) over fp32.
template <class F>
Kernel quotients_by(F f) {
  return [f](const opbound::Op& op, const Call& call) {
    op.run(call);
    const auto& v = call.forward;
    const auto scale = static_cast<float>(v[Op::scale].at(0));
    for (std::int64_t i = 0; i < v[Op::g].count(); ++i)
      v[Op::unscaled].set(i, round_to(format_of(v[Op::unscaled].element),
                                      f(static_cast<float>(v[Op::g].at(i)), scale)));
  };
}

/// The right kernel, then found_inf is whether is_bad(g) holds for any of the first n - left_out.
template <class F>
Kernel found_by(std::int64_t left_out, F is_bad) {
  return [=](const opbound::Op& op, const Call& call) {
    op.run(call);
    const auto& v = call.forward;
    bool found = false;
    for (std::int64_t i = 0; i < v[Op::g].count() - left_out; ++i)
      found = found || is_bad(v[Op::g].at(i));
    v[Op::found_inf].set(0, found ? 1 : 0);
  };
}

inline bool bad(double x) { return !std::isfinite(x); }

template <class F>
FaultyKernel elements(F f) {
  return {quotients_by(f), quotients_by([](float g, float s) { return g / s; })};
}
template <class F>
FaultyKernel flag(std::int64_t left_out, F is_bad) {
  return {found_by(left_out, is_bad), found_by(0, bad)};
}

}  // namespace unscale_faults

inline std::vector<Fault> unscale() {
  using namespace unscale_faults;
  const auto scaled = [](std::string_view scale) {
    return Inputs{{"g", "normal(sigma=100)"}, {"scale", scale}};
  };
  const auto with = [](std::string_view name, std::string_view what, std::string_view precision,
                       std::int64_t n, Inputs inputs, auto run) {
    return planted("unscale", name, what, {}, precision, {n, 1}, std::move(inputs), {}, run);
  };
  const auto infinite = [](double x) { return std::isinf(x); };
  return {
      with("double_unscale", "g / scale / scale: unscale_ was called and step unscales again",
           "fp16:fp32:fp32", 64, scaled("constant(value=65536)"),
           elements([](float g, float s) { return g / s / s; })),
      with("wrong_divisor", "g / (2 scale): once more by the number of ranks", "bf16:fp32:bf16", 64,
           scaled("constant(value=1024)"), elements([](float g, float s) { return g / (2 * s); })),
      with("reciprocal_for_division", "g * (1 / scale) where the division is declared", "fp32", 512,
           scaled("constant(value=1000)"),
           with_call([](Call& c) { c.variant = opbound::unscale::reciprocal; })),
      with("reciprocal_in_bf16", "1 / scale rounded to bf16", "bf16:fp32:bf16", 64,
           scaled("constant(value=1000)"), elements([](float g, float s) {
             return g * static_cast<float>(round_to(bf16, 1 / s));
           })),
      with("scale_in_fp16", "the scale kept in fp16, where 65536 is infinite", "fp16:fp32:fp32", 64,
           scaled("constant(value=65536)"),
           elements([](float g, float s) { return g / static_cast<float>(round_to(fp16, s)); })),
      with("stored_back_in_fp16", "fp32 gradients through the fp16 buffer: below 2^-25 they are 0",
           "fp16:fp32:fp32", 64, scaled("constant(value=65536)"),
           elements([](float g, float s) { return static_cast<float>(round_to(fp16, g / s)); })),
      with("found_inf_ignored", "found_inf stays false", "fp32", 64,
           {{"g", "one_hot(value=inf, background=1)"}, {"scale", "constant(value=128)"}},
           flag(0, [](double) { return false; })),
      with("nan_not_found", "only infinities are found", "bf16:fp32:bf16", 64,
           {{"g", "one_hot(value=nan, background=1)"}, {"scale", "constant(value=128)"}},
           flag(0, infinite)),
      with("last_not_looked_at", "found_inf leaves the last element out", "fp32", 1,
           {{"g", "constant(value=inf)"}, {"scale", "constant(value=128)"}}, flag(1, bad)),
      with("found_inf_of_the_result", "g / scale overflows where g is finite", "fp32", 64,
           {{"g", "near_overflow"}, {"scale", "constant(value=0.0625)"}},
           flag(0, [](double x) { return std::isinf(static_cast<float>(x / 0.0625)); })),
  };
}

}  // namespace opbound::faults
