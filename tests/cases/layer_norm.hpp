// Public cases of layer_norm.
#pragma once

#include <array>

#include "ops/layer_norm.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace layer_norm_cases {

inline Attributes plain() { return {{"affine", std::string("none")}}; }

/// y, mean and rstd of every row in fp32; variance(t, first, n, mean).
template <class F>
FaultyKernel normalised(F variance) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    const std::int64_t n = call.sizes[1];
    for (std::int64_t r = 0; r < call.sizes[0]; ++r) {
      float m = 0;
      for (std::int64_t j = 0; j < n; ++j) m += t.get("x", r * n + j);
      m /= static_cast<float>(n);
      const float rstd = 1 / sqrt(variance(t, r * n, n, m) + 1e-5F);
      for (std::int64_t j = 0; j < n; ++j)
        t.put("y", r * n + j, (t.get("x", r * n + j) - m) * rstd);
      t.put("mean", r, m);
      t.put("rstd", r, rstd);
    }
  };
}

/// mean x^2 - mean^2, added in turn.
inline float one_pass(const Judged& t, std::int64_t first, std::int64_t n, float m) {
  float s = 0;
  for (std::int64_t j = 0; j < n; ++j) s += t.get("x", first + j) * t.get("x", first + j);
  return s / static_cast<float>(n) - m * m;
}

/// Two passes, squares and their sum rounded by `stored`.
template <class F>
auto two_pass(F stored) {
  return [=](const Judged& t, std::int64_t first, std::int64_t n, float m) {
    float s = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const float d = t.get("x", first + j) - m;
      s = stored(s + d * d);
    }
    return s / static_cast<float>(n);
  };
}

/// A row of 16 values, 1e-3 apart.
inline std::vector<double> ramp(double mean) {
  std::vector<double> x;
  for (int i = 0; i < 16; ++i) x.push_back(mean + i * 1e-3);
  return x;
}

/// dgamma and dbeta as a scratch buffer of `width` columns has them: wider columns share a place.
inline FaultyKernel narrow_buffer(std::int64_t width) {
  return [=](const Op& op, const Call& call) {
    op.run(call);
    const Judged t(op, call);
    for (const std::string_view name : {"dgamma", "dbeta"})
      for (std::int64_t c = width; c < call.sizes[1]; ++c) t.put(name, c, t.get(name, c % width));
  };
}

/// dx = rstd (g - mean dy - xhat mean(dy xhat)) with g = gamma dy: the means forget gamma.
inline void means_without_gamma(const Op& op, const Call& call) {
  op.run(call);
  const Judged t(op, call);
  const std::int64_t n = call.sizes[1];
  for (std::int64_t r = 0; r < call.sizes[0]; ++r) {
    const auto xhat = [&](std::int64_t j) {
      return (t.get("x", r * n + j) - t.get("mean", r)) * t.get("rstd", r);
    };
    float a = 0, b = 0;
    for (std::int64_t j = 0; j < n; ++j) a += t.get("dy", r * n + j);
    for (std::int64_t j = 0; j < n; ++j) b += t.get("dy", r * n + j) * xhat(j);
    for (std::int64_t j = 0; j < n; ++j)
      t.put("dx", r * n + j,
            t.get("rstd", r) * (t.get("gamma", j) * t.get("dy", r * n + j) -
                                (a + xhat(j) * b) / static_cast<float>(n)));
  }
}

inline std::vector<PublicCase> of_means() {
  const std::array<std::pair<double, std::string_view>, 4> published{
      std::pair(0.0, "-1.341641"), std::pair(100.0, "-1.341528"), std::pair(1000.0, "-1.341508"),
      std::pair(10000.0, "-1.331333")};
  std::vector<PublicCase> all;
  for (const auto& [mean, first] : published)
    all.push_back(shown("NORM-01", "mean x^2 - mean^2 of a row far from 0", "layer_norm",
                        Direction::forward, "fp32", {1, 16}, {{"x", "", ramp(mean)}}, plain(),
                        {{"y", {first}}}, mean == 0 ? FaultyKernel() : normalised(one_pass)));
  return all;
}

}  // namespace layer_norm_cases

inline std::vector<PublicCase> layer_norm() {
  using namespace layer_norm_cases;
  constexpr auto forth = Direction::forward, local = Direction::backward_local;
  const std::vector<CaseInput> affine{
      {"x", "normal"}, {"gamma", "normal(mean=1)"}, {"beta", "normal"}, {"dy", "normal"}};
  std::vector<PublicCase> all = of_means();
  const std::vector<PublicCase> others{
      shown("NORM-02", "one pass over four values near 2000", "layer_norm", forth, "fp32", {1, 4},
            {{"x", "", {2000.25, 2001.5, 1998.75, 2000}}}, plain(),
            {{"y", {"0.12803621", "1.40839829", "-1.40839829", "-0.12803621"}}},
            normalised(one_pass)),
      shown("NORM-04", "one pass over a row near 1449.57: a variance of rounding errors",
            "layer_norm", forth, "fp32", {8, 16}, {{"x", "normal(mean=1449.57, sigma=0.46)"}},
            plain(), {}, normalised(one_pass)),
      shown("NORM-05", "squares of 1e30 in fp32: an infinite variance", "layer_norm", forth, "fp64",
            {1, 4}, {{"x", "", {1e30, -1e30, 2e30, 0}}}, plain(),
            {{"y", {"0.4472136", "-1.3416408", "1.3416408", "-0.4472136"}}},
            normalised(two_pass([](float x) { return x; }))),
      shown("NORM-13", "sums over dy where gamma dy belongs", "layer_norm", local, "bf16:fp32:bf16",
            {8, 96}, affine, {}, {}, means_without_gamma),
      shown("NORM-14", "a buffer as wide as the last axis for gradients of two axes, 8 by 16",
            "layer_norm", local, "fp32", {64, 128}, affine, {}, {}, narrow_buffer(16)),
      shown("NORM-19", "wider than 1024: squares added in bf16", "layer_norm", forth,
            "bf16:fp32:bf16", {4, 1025}, {{"x", "normal"}}, plain(), {},
            normalised(two_pass(in_bf16))),
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace opbound::cases
