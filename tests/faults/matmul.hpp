// Planted faults of the matrix product.
#pragma once

#include "ops/matmul.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace matmul_faults {

/// One element of the output: from a(k), b(k) in fp32, K terms.
template <class F>
Kernel elements_by(F element) {
  return [element](const Op&, const Call& call) {
    using Place = matmul::forward;
    const auto& v = call.forward;
    const std::int64_t n = call.sizes[1], k = call.sizes[2];
    for (std::int64_t e = 0; e < call.sizes[0] * n; ++e) {
      std::vector<float> a, b;
      for (std::int64_t t = 0; t < k; ++t) {
        a.push_back(static_cast<float>(v[Place::a].at(e / n * k + t)));
        b.push_back(static_cast<float>(v[Place::b].at(t * n + e % n)));
      }
      const TensorView& d = v[Place::d];
      d.set(e, round_to(format_of(d.element), element(a, b, e)));
    }
  };
}

inline float dot(const std::vector<float>& a, const std::vector<float>& b, std::size_t terms) {
  float sum = 0;
  for (std::size_t t = 0; t < terms; ++t) sum = fma(a[t], b[t], sum);
  return sum;
}

/// The control adds the bias where there is one.
template <class F>
FaultyKernel by_element(F element) {
  return {elements_by(element), [](const Op& op, const Call& call) {
            const TensorView& bias = call.forward[matmul::forward::bias];
            elements_by([&](const auto& a, const auto& b, std::int64_t e) {
              const float sum = dot(a, b, a.size());
              return bias.count() == 0 ? sum : sum + static_cast<float>(bias.at(e % call.sizes[1]));
            })(op, call);
          }};
}

}  // namespace matmul_faults

inline std::vector<Fault> matmul() {
  using namespace matmul_faults;
  using Place = opbound::matmul::forward;
  using Back = opbound::matmul::backward;
  constexpr auto local = Direction::backward_local;
  const Inputs normal{{"a", "normal"}, {"b", "normal"}},
      same_sign{{"a", "uniform(low=0, high=1)"}, {"b", "uniform(low=0, high=1)"}};
  return {
      planted("matmul", "last_k_dropped", "the sum leaves out the last k", {}, "bf16:fp32:bf16",
              {4, 4, 65}, normal, {}, by_element([](const auto& a, const auto& b, std::int64_t) {
                return dot(a, b, a.size() - 1);
              })),
      planted("matmul", "accumulated_in_bf16", "the sum in bf16", {}, "bf16:fp32:bf16", {4, 4, 300},
              same_sign, {}, with_call([](Call& c) { c.compute = bf16; })),
      planted("matmul", "accumulated_in_fp16", "the sum in fp16", {}, "fp16:fp32:fp16", {4, 4, 300},
              same_sign, {}, with_call([](Call& c) { c.compute = fp16; })),
      planted("matmul", "truncating_accumulator",
              "13 fraction bits, truncated, as fp8 tensor cores keep", {}, "e4m3:fp32:fp32",
              {4, 4, 512}, same_sign, {},
              by_element([](const auto& a, const auto& b, std::int64_t) {
                constexpr Format kept{Kind::fp32, 14, -126, 127, Overflow::to_infinity};
                double sum = 0;
                for (std::size_t t = 0; t < a.size(); ++t)
                  sum = truncate_to(kept, sum + double{a[t]} * double{b[t]});
                return static_cast<float>(sum);
              })),
      planted("matmul", "inputs_through_tf32", "fp32 inputs rounded to tf32", {}, "fp32",
              {4, 4, 64}, normal, {},
              with_input("a", [](const TensorView& a,
                                 std::int64_t i) { return round_to(tf32, a.at(i)); })),
      planted("matmul", "transposed_b", "b read as its transpose", {}, "fp32", {5, 8, 8}, normal,
              {}, with_call([](Call& c) {
                TensorView& b = c.forward[Place::b];
                std::swap(b.stride[0], b.stride[1]);
              })),
      planted("matmul", "alpha_forgotten", "alpha left out", {}, "fp32", {4, 4, 16}, normal,
              {{"alpha", 0.5}}, with_call([](Call& c) {
                auto a = from_bytes<opbound::matmul::Attributes>(c.attributes);
                a.alpha = 1;
                c.attributes = to_bytes(a);
              })),
      planted("matmul", "bias_forgotten", "the bias left out", {}, "fp32", {4, 4, 16}, normal,
              {{"bias", true}}, by_element([](const auto& a, const auto& b, std::int64_t) {
                return dot(a, b, a.size());
              })),
      planted("matmul", "stale_tile", "a padded tile's rest is not cleared: one product too many",
              {}, "fp16:fp32:fp16", {4, 4, 33}, normal, {},
              by_element([](const auto& a, const auto& b, std::int64_t) {
                return fma(a.back(), b.back(), dot(a, b, a.size()));
              })),
      planted("matmul", "split_sums_in_bf16", "the workspace of split-K in bf16", {},
              "bf16:fp32:fp32", {4, 4, 256}, same_sign, {},
              by_element([](const auto& a, const auto& b, std::int64_t) {
                float sum = 0;
                for (std::size_t s = 0; s < 4; ++s) {
                  float part = 0;
                  for (std::size_t t = 64 * s; t < 64 * (s + 1); ++t) part = fma(a[t], b[t], part);
                  sum += static_cast<float>(round_to(bf16, part));
                }
                return sum;
              })),
      planted("matmul", "first_upstream_row", "the first row's upstream gradient for all rows",
              local, "bf16:fp32:bf16", {4, 5, 6}, normal, {},
              with_call([](Call& c) { c.backward[Back::dd].stride[0] = 0; })),
      planted("matmul", "upstream_in_bf16", "the upstream gradient rounded to bf16", local,
              "fp16:fp32:fp16", {4, 5, 6}, normal, {},
              with_input("dd", [](const TensorView& dd,
                                  std::int64_t i) { return round_to(bf16, dd.at(i)); })),
  };
}

}  // namespace opbound::faults
