// Planted faults of accumulate.
#pragma once

#include <algorithm>

#include "ops/accumulate.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace accumulate_faults {

/// y[i] = f(gradients of element i, weights), over fp32.
template <class F>
Kernel each_by(F f) {
  return [f](const Op&, const Call& call) {
    const auto& v = call.forward;
    const std::int64_t k = call.sizes[0], n = call.sizes[1];
    std::vector<float> weights(static_cast<std::size_t>(k), 1.0F);
    for (std::int64_t b = 0; b < v[1].count(); ++b)
      weights[static_cast<std::size_t>(b)] = static_cast<float>(v[1].at(b));
    for (std::int64_t i = 0; i < n; ++i) {
      std::vector<float> g;
      for (std::int64_t b = 0; b < k; ++b) g.push_back(static_cast<float>(v[0].at(b * n + i)));
      v[2].set(i, round_to(format_of(v[2].element), f(g, weights)));
    }
  };
}

using Values = std::vector<float>;

/// sum_k w_k g_k from batch `first` on, each sum rounded to `format`.
inline float sum(const Values& g, const Values& w, std::size_t first = 0,
                 const Format& format = fp32) {
  float total = 0;
  for (std::size_t b = first; b < g.size(); ++b)
    total = static_cast<float>(round_to(format, total + w[b] * g[b]));
  return total;
}
inline float total_of(const Values& w) {
  float total = 0;
  for (const float x : w) total += x;
  return total;
}

/// The right mean for the control.
template <class F>
FaultyKernel by(F f) {
  return {each_by(f),
          each_by([](const Values& g, const Values& w) { return sum(g, w) / total_of(w); })};
}

}  // namespace accumulate_faults

inline std::vector<Fault> accumulate() {
  using namespace accumulate_faults;
  const auto with = [](std::string_view name, std::string_view what, std::string_view precision,
                       bool weighted, auto f, std::string_view input = "normal(mean=1)") {
    return planted("accumulate", name, what, {}, precision, {8, 64},
                   {{"g", input}, {"weights", "increasing(start=1, step=3)"}},
                   {{"weighted", weighted}}, by(f));
  };
  return {
      with("not_divided", "the sum where the mean is asked for: K times too large",
           "bf16:fp32:bf16", false, [](const Values& g, const Values& w) { return sum(g, w); }),
      with("divided_twice", "by the framework and by the loss", "bf16:fp32:bf16", false,
           [](const Values& g, const Values& w) {
             return sum(g, w) / static_cast<float>(g.size() * g.size());
           }),
      with("wrong_divisor", "divided by K + 1", "bf16:fp32:bf16", false,
           [](const Values& g, const Values& w) {
             return sum(g, w) / static_cast<float>(g.size() + 1);
           }),
      with("mean_of_means", "sizes are left out of the mean", "bf16:fp32:bf16", true,
           [](const Values& g, const Values&) {
             return sum(g, Values(g.size(), 1.0F)) / static_cast<float>(g.size());
           }),
      with("last_batch_only", "the gradients are zeroed before every backward pass", "fp32", false,
           [](const Values& g, const Values&) { return g.back() / static_cast<float>(g.size()); }),
      with("first_batch_lost", "the gradients are zeroed after the first backward pass", "fp32",
           false,
           [](const Values& g, const Values& w) {
             return sum(g, w, 1) / static_cast<float>(g.size());
           }),
      with("first_batch_twice", "the first micro-batch is added twice", "fp32", false,
           [](const Values& g, const Values& w) {
             return (g[0] + sum(g, w)) / static_cast<float>(g.size());
           }),
      with("bf16_accumulation", "stored in bf16 at every step where fp32 is declared",
           "bf16:fp32:bf16", false,
           [](const Values& g, const Values& w) {
             return sum(g, w, 0, bf16) / static_cast<float>(g.size());
           }),
      with(
          "fp16_accumulation", "the sum kept in fp16, where 65504 is the largest", "bf16:fp32:bf16",
          false,
          [](const Values& g, const Values& w) {
            return sum(g, w, 0, fp16) / static_cast<float>(g.size());
          },
          "constant(value=20000)"),
      with("sizes_of_the_next_batch", "weights and gradients out of step by one", "fp32", true,
           [](const Values& g, Values w) {
             std::rotate(w.begin(), w.begin() + 1, w.end());
             return sum(g, w) / total_of(w);
           }),
  };
}

}  // namespace opbound::faults
