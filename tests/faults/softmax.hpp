// Planted faults of softmax and log-softmax.
#pragma once

#include "ops/softmax.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace softmax_faults {

/// One row in fp32: load(k) reads the row of tensor k of the judged pass, store writes its last
/// tensor.
template <class F>
Kernel rows_by(F row_kernel) {
  return [row_kernel](const Op&, const Call& call) {
    const auto views = call.judged();
    const std::int64_t n = call.sizes[1];
    for (std::int64_t r = 0; r < call.sizes[0]; ++r) {
      std::vector<std::vector<float>> rows;
      for (const TensorView& v : views) {
        auto& row = rows.emplace_back();
        for (std::int64_t j = 0; j < n; ++j) row.push_back(static_cast<float>(v.at(r * n + j)));
      }
      row_kernel(rows, r);
      const TensorView& out = views.back();
      for (std::int64_t j = 0; j < n; ++j)
        out.set(r * n + j,
                round_to(format_of(out.element), rows.back()[static_cast<std::size_t>(j)]));
    }
  };
}

using Rows = std::vector<std::vector<float>>;

/// y = exp(x - shift) / sum, with the sum taken by `add`.
template <class Add>
void normalise(Rows& rows, float shift, std::size_t summed, Add add) {
  const auto& x = rows[0];
  float s = 0;
  for (std::size_t j = 0; j < summed; ++j) s = add(s, exp(x[j] - shift));
  for (std::size_t j = 0; j < x.size(); ++j) rows[1][j] = exp(x[j] - shift) / s;
}

inline float dot(const std::vector<float>& y, const std::vector<float>& dy, std::size_t terms) {
  double s = 0;  // the bound is that of another order of summation
  for (std::size_t j = 0; j < terms; ++j) s += double{y[j]} * dy[j];
  return static_cast<float>(s);
}

inline void right_forward(Rows& r, bool is_log) {
  const float top = largest(r[0]);
  normalise(r, top, r[0].size(), plain_add);
  if (!is_log) return;
  float s = 0;
  for (const float x : r[0]) s += exp(x - top);
  for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = (r[0][j] - top) - log(s);
}
inline void right_backward(Rows& r, bool is_log) {
  double total = is_log ? 0 : dot(r[0], r[1], r[0].size());
  for (const float g : r[1]) total += is_log ? g : 0;
  for (std::size_t j = 0; j < r[0].size(); ++j)
    r[2][j] = static_cast<float>(is_log ? r[1][j] - exp(double{r[0][j]}) * total
                                        : r[0][j] * (r[1][j] - total));
}

template <class F>
FaultyKernel by_row(F row_kernel) {
  return {rows_by(row_kernel), [](const Op& op, const Call& call) {
            const bool is_log = from_bytes<opbound::softmax::Attributes>(call.attributes).log;
            const bool is_forward = call.direction == Direction::forward;
            rows_by([=](Rows& r, std::int64_t) {
              is_forward ? right_forward(r, is_log) : right_backward(r, is_log);
            })(op, call);
          }};
}

/// From the stored y: dx = y (dy - total), total made by `weigh`.
template <class F>
FaultyKernel backward_with(F total_of) {
  return by_row([total_of](Rows& r, std::int64_t) {
    const float total = total_of(r[0], r[1]);
    for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = r[0][j] * (r[1][j] - total);
  });
}

inline std::vector<Fault> of_forward() {
  const Inputs logits{{"x", "normal(sigma=5)"}}, large{{"x", "normal(mean=95, sigma=2)"}},
      low{{"x", "normal(mean=-120)"}};
  return {
      planted("softmax", "no_max_subtraction", "exp(x) / sum exp(x)", {}, "fp32", {4, 128}, large,
              {}, by_row([](Rows& r, std::int64_t) { normalise(r, 0, r[0].size(), plain_add); })),
      planted("softmax", "no_max_subtraction_low", "exp(x) / sum exp(x), all of it underflows", {},
              "bf16:fp32:bf16", {4, 128}, low, {},
              by_row([](Rows& r, std::int64_t) { normalise(r, 0, r[0].size(), plain_add); })),
      planted("softmax", "bf16_accumulation", "the sum kept in bf16", {}, "bf16:fp32:bf16",
              {4, 1024}, {{"x", "normal"}}, {}, by_row([](Rows& r, std::int64_t) {
                normalise(r, largest(r[0]), r[0].size(), [](float a, float b) {
                  return (Rounded<bf16>::of(a) + Rounded<bf16>::of(b)).value;
                });
              })),
      planted("softmax", "dropped_last", "the sum leaves out the last element", {},
              "bf16:fp32:bf16", {4, 128}, {{"x", "constant(value=3)"}}, {},
              by_row([](Rows& r, std::int64_t) {
                normalise(r, largest(r[0]), r[0].size() - 1, plain_add);
              })),
      planted("softmax", "prescaled_exp2", "exp2(x log2 e) with the product rounded to fp32", {},
              "fp32", {4, 128}, {{"x", "normal(sigma=30)"}}, {}, by_row([](Rows& r, std::int64_t) {
                const float top = largest(r[0]);
                float s = 0;
                for (const float x : r[0]) s += exp2((x - top) * 1.44269504F);
                for (std::size_t j = 0; j < r[0].size(); ++j)
                  r[1][j] = exp2((r[0][j] - top) * 1.44269504F) / s;
              })),
      planted("softmax", "truncated_store", "the output truncated instead of rounded to nearest",
              {}, "fp16:fp32:fp16", {4, 128}, logits, {}, truncating()),
      planted("softmax", "max_in_bf16",
              "max rounded to bf16 and only subtracted from the numerator", {}, "fp32", {4, 128},
              logits, {}, by_row([](Rows& r, std::int64_t) {
                const float top = largest(r[0]);
                const auto rounded = static_cast<float>(round_to(bf16, top));
                float s = 0;
                for (const float x : r[0]) s += exp(x - top);
                for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = exp(r[0][j] - rounded) / s;
              })),
  };
}

inline std::vector<Fault> of_online() {
  return {
      planted("softmax", "online_without_rescaling",
              "the running sum is not rescaled when the maximum grows", {}, "bf16:fp32:bf16",
              {4, 128}, {{"x", "normal(sigma=5)"}}, {}, by_row([](Rows& r, std::int64_t) {
                float top = r[0][0], s = 0;
                for (const float x : r[0]) {
                  top = max(top, x);
                  s += exp(x - top);
                }
                for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = exp(r[0][j] - top) / s;
              })),
      planted("softmax", "online_from_minus_infinity",
              "exp(-inf - -inf) where nothing but masks came before", {}, "fp32", {40, 16},
              {{"x", "one_hot(value=1, background=-inf)"}}, {}, by_row([](Rows& r, std::int64_t) {
                float top = -HUGE_VALF, s = 0;
                for (const float x : r[0]) {
                  const float next = max(top, x);
                  s = s * exp(top - next) + exp(x - next);
                  top = next;
                }
                for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = exp(r[0][j] - top) / s;
              })),
  };
}

inline std::vector<Fault> of_log() {
  return {
      planted("softmax", "log_of_softmax", "log(softmax) where (x - max) - log S is declared", {},
              "fp32", {4, 128}, {{"x", "normal(sigma=60)"}}, {{"log", true}},
              with_call([](Call& c) { c.variant = opbound::softmax::log_of_softmax; })),
      planted("softmax", "log2_for_log", "log2 S for log S", {}, "bf16:fp32:bf16", {4, 128},
              {{"x", "normal(sigma=5)"}}, {{"log", true}}, by_row([](Rows& r, std::int64_t) {
                const float top = largest(r[0]);
                float s = 0;
                for (const float x : r[0]) s += exp(x - top);
                for (std::size_t j = 0; j < r[0].size(); ++j)
                  r[1][j] = (r[0][j] - top) - 1.44269504F * log(s);
              })),
  };
}

inline std::vector<Fault> of_backward() {
  constexpr auto up = Direction::backward_local;
  const Inputs both{{"x", "normal(sigma=3)"}, {"dy", "normal"}};
  return {
      planted("softmax", "no_projection", "dx = y dy, without the row's sum", up, "bf16:fp32:bf16",
              {4, 128}, both, {}, backward_with([](const auto&, const auto&) { return 0.0F; })),
      planted("softmax", "projection_in_bf16", "sum y dy rounded to bf16", up, "fp32", {4, 128},
              both, {}, backward_with([](const auto& y, const auto& dy) {
                return static_cast<float>(round_to(bf16, dot(y, dy, y.size())));
              })),
      planted("softmax", "product_in_bf16",
              "y dy rounded to bf16 before it is summed, as stored_product does", up,
              "bf16:fp32:bf16", {16, 128}, both, {}, by_row([](Rows& r, std::int64_t) {
                std::vector<float> t;
                float total = 0;
                for (std::size_t j = 0; j < r[0].size(); ++j) {
                  t.push_back(static_cast<float>(round_to(bf16, r[0][j] * r[1][j])));
                  total += t.back();
                }
                for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = t[j] - r[0][j] * total;
              })),
      planted("softmax", "projection_drops_last", "sum y dy without the last element", up,
              "fp16:fp32:fp16", {4, 5}, both, {}, backward_with([](const auto& y, const auto& dy) {
                return dot(y, dy, y.size() - 1);
              })),
      planted("softmax", "first_upstream_for_all",
              "the first token's upstream gradient for the row", up, "bf16:fp32:bf16", {4, 128},
              both, {}, by_row([](Rows& r, std::int64_t) {
                for (float& g : r[1]) g = r[1][0];
                const float total = dot(r[0], r[1], r[0].size());
                for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = r[0][j] * (r[1][j] - total);
              })),
      planted("softmax", "log_without_exp", "log-softmax backward with y where exp(y) belongs", up,
              "fp32", {4, 128}, both, {{"log", true}}, by_row([](Rows& r, std::int64_t) {
                float total = 0;
                for (const float g : r[1]) total += g;
                for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = r[1][j] - r[0][j] * total;
              })),
      planted("softmax", "recomputed_from_rounded_y", "full backward from y rounded to bf16",
              Direction::backward_full, "fp32", {4, 128}, both, {},
              with_saved("y", [](const TensorView& y,
                                 std::int64_t i) { return round_to(bf16, y.at(i)); })),
  };
}

}  // namespace softmax_faults

inline std::vector<Fault> softmax() {
  using namespace softmax_faults;
  return joined(of_forward(), of_log(), of_online(), of_backward());
}

}  // namespace opbound::faults
