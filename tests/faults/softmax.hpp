// Planted faults of softmax and log-softmax.
#pragma once

#include "ops/softmax.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

/// One row in fp32: load(k) reads the row of tensor k of the judged pass, store writes its last
/// tensor.
template <class F>
std::function<void(const Op&, const Call&)> by_row(F row_kernel) {
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

inline float row_max(const std::vector<float>& x) {
  float top = x[0];
  for (const float v : x) top = max(top, v);
  return top;
}

/// y = exp(x - shift) / sum, with the sum taken by `add`.
template <class Add>
void normalise(Rows& rows, float shift, std::size_t summed, Add add) {
  const auto& x = rows[0];
  float s = 0;
  for (std::size_t j = 0; j < summed; ++j) s = add(s, exp(x[j] - shift));
  for (std::size_t j = 0; j < x.size(); ++j) rows[1][j] = exp(x[j] - shift) / s;
}

inline float plain_add(float a, float b) { return a + b; }

/// From the stored y: dx = y (dy - total), total made by `weigh`.
template <class F>
std::function<void(const Op&, const Call&)> backward_with(F total_of) {
  return by_row([total_of](Rows& r, std::int64_t) {
    const float total = total_of(r[0], r[1]);
    for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = r[0][j] * (r[1][j] - total);
  });
}

inline std::vector<Fault> softmax_forward_faults() {
  const std::vector<std::pair<std::string_view, std::string_view>> logits{{"x", "normal(sigma=5)"}},
      large{{"x", "normal(mean=95, sigma=2)"}}, low{{"x", "normal(mean=-120)"}};
  return {
      {"softmax",
       "no_max_subtraction",
       "exp(x) / sum exp(x)",
       {},
       "fp32",
       {4, 128},
       large,
       {},
       by_row([](Rows& r, std::int64_t) { normalise(r, 0, r[0].size(), plain_add); })},
      {"softmax",
       "no_max_subtraction_low",
       "exp(x) / sum exp(x), all of it underflows",
       {},
       "bf16:fp32:bf16",
       {4, 128},
       low,
       {},
       by_row([](Rows& r, std::int64_t) { normalise(r, 0, r[0].size(), plain_add); })},
      {"softmax",
       "bf16_accumulation",
       "the sum kept in bf16",
       {},
       "bf16:fp32:bf16",
       {4, 1024},
       {{"x", "normal"}},
       {},
       by_row([](Rows& r, std::int64_t) {
         normalise(r, row_max(r[0]), r[0].size(), [](float a, float b) {
           return (Rounded<bf16>::of(a) + Rounded<bf16>::of(b)).value;
         });
       })},
      {"softmax",
       "dropped_last",
       "the sum leaves out the last element",
       {},
       "bf16:fp32:bf16",
       {4, 128},
       {{"x", "constant(value=3)"}},
       {},
       by_row(
           [](Rows& r, std::int64_t) { normalise(r, row_max(r[0]), r[0].size() - 1, plain_add); })},
      {"softmax",
       "prescaled_exp2",
       "exp2(x log2 e) with the product rounded to fp32",
       {},
       "fp32",
       {4, 128},
       {{"x", "normal(sigma=30)"}},
       {},
       by_row([](Rows& r, std::int64_t) {
         const float top = row_max(r[0]);
         float s = 0;
         for (const float x : r[0]) s += exp2((x - top) * 1.44269504F);
         for (std::size_t j = 0; j < r[0].size(); ++j)
           r[1][j] = exp2((r[0][j] - top) * 1.44269504F) / s;
       })},
      {"softmax",
       "truncated_store",
       "the output truncated instead of rounded to nearest",
       {},
       "fp16:fp32:fp16",
       {4, 128},
       logits,
       {},
       truncating(1)},
      {"softmax",
       "max_in_bf16",
       "max rounded to bf16 and only subtracted from the numerator",
       {},
       "fp32",
       {4, 128},
       logits,
       {},
       by_row([](Rows& r, std::int64_t) {
         const float top = row_max(r[0]);
         const auto rounded = static_cast<float>(round_to(bf16, top));
         float s = 0;
         for (const float x : r[0]) s += exp(x - top);
         for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = exp(r[0][j] - rounded) / s;
       })},
      {"softmax",
       "online_without_rescaling",
       "the running sum is not rescaled when the maximum grows",
       {},
       "bf16:fp32:bf16",
       {4, 128},
       logits,
       {},
       by_row([](Rows& r, std::int64_t) {
         float top = r[0][0], s = 0;
         for (const float x : r[0]) {
           top = max(top, x);
           s += exp(x - top);
         }
         for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = exp(r[0][j] - top) / s;
       })},
      {"softmax",
       "online_from_minus_infinity",
       "exp(-inf - -inf) where nothing but masks came before",
       {},
       "fp32",
       {40, 16},
       {{"x", "one_hot(value=1, background=-inf)"}},
       {},
       by_row([](Rows& r, std::int64_t) {
         float top = -HUGE_VALF, s = 0;
         for (const float x : r[0]) {
           const float next = max(top, x);
           s = s * exp(top - next) + exp(x - next);
           top = next;
         }
         for (std::size_t j = 0; j < r[0].size(); ++j) r[1][j] = exp(r[0][j] - top) / s;
       })},
      {"softmax",
       "log_of_softmax",
       "log(softmax) where (x - max) - log S is declared",
       {},
       "fp32",
       {4, 128},
       {{"x", "normal(sigma=60)"}},
       {{"log", true}},
       with_call([](Call& c) { c.variant = opbound::softmax::log_of_softmax; })},
      {"softmax",
       "log2_for_log",
       "log2 S for log S",
       {},
       "bf16:fp32:bf16",
       {4, 128},
       logits,
       {{"log", true}},
       by_row([](Rows& r, std::int64_t) {
         const float top = row_max(r[0]);
         float s = 0;
         for (const float x : r[0]) s += exp(x - top);
         for (std::size_t j = 0; j < r[0].size(); ++j)
           r[1][j] = (r[0][j] - top) - 1.44269504F * log(s);
       })},
  };
}

inline std::vector<Fault> softmax_backward_faults() {
  constexpr auto up = Direction::backward_local;
  const std::vector<std::pair<std::string_view, std::string_view>> both{{"x", "normal(sigma=3)"},
                                                                        {"dy", "normal"}};
  const auto dot = [](const std::vector<float>& y, const std::vector<float>& dy, std::size_t n) {
    float s = 0;
    for (std::size_t j = 0; j < n; ++j) s += y[j] * dy[j];
    return s;
  };
  return {
      {"softmax",
       "no_projection",
       "dx = y dy, without the row's sum",
       up,
       "bf16:fp32:bf16",
       {4, 128},
       both,
       {},
       backward_with([](const auto&, const auto&) { return 0.0F; })},
      {"softmax",
       "projection_in_bf16",
       "sum y dy rounded to bf16",
       up,
       "fp32",
       {4, 128},
       both,
       {},
       backward_with([=](const auto& y, const auto& dy) {
         return static_cast<float>(round_to(bf16, dot(y, dy, y.size())));
       })},
      {"softmax",
       "product_in_bf16",
       "y dy rounded to bf16 before it is summed, as stored_product does",
       up,
       "bf16:fp32:bf16",
       {16, 128},
       both,
       {},
       by_row([](Rows& r, std::int64_t) {
         std::vector<float> t;
         float total = 0;
         for (std::size_t j = 0; j < r[0].size(); ++j) {
           t.push_back(static_cast<float>(round_to(bf16, r[0][j] * r[1][j])));
           total += t.back();
         }
         for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = t[j] - r[0][j] * total;
       })},
      {"softmax",
       "projection_drops_last",
       "sum y dy without the last element",
       up,
       "fp16:fp32:fp16",
       {4, 5},
       both,
       {},
       backward_with([=](const auto& y, const auto& dy) { return dot(y, dy, y.size() - 1); })},
      {"softmax",
       "first_upstream_for_all",
       "the first token's upstream gradient for the row",
       up,
       "bf16:fp32:bf16",
       {4, 128},
       both,
       {},
       by_row([=](Rows& r, std::int64_t) {
         for (float& g : r[1]) g = r[1][0];
         const float total = dot(r[0], r[1], r[0].size());
         for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = r[0][j] * (r[1][j] - total);
       })},
      {"softmax",
       "log_without_exp",
       "log-softmax backward with y where exp(y) belongs",
       up,
       "fp32",
       {4, 128},
       both,
       {{"log", true}},
       by_row([](Rows& r, std::int64_t) {
         float total = 0;
         for (const float g : r[1]) total += g;
         for (std::size_t j = 0; j < r[0].size(); ++j) r[2][j] = r[1][j] - r[0][j] * total;
       })},
      {"softmax",
       "recomputed_from_rounded_y",
       "full backward from y rounded to bf16",
       Direction::backward_full,
       "fp32",
       {4, 128},
       both,
       {},
       [](const Op& op, const Call& call) {
         Call forward = call;
         forward.direction = Direction::forward;
         forward.backward.clear();
         op.run(forward);
         const TensorView& y = call.forward[1];
         for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, round_to(bf16, y.at(i)));
         Call backward = call;
         backward.direction = Direction::backward_local;
         backward.forward.clear();
         op.run(backward);
       }},
  };
}

inline std::vector<Fault> softmax() {
  std::vector<Fault> all = softmax_forward_faults();
  for (Fault& f : softmax_backward_faults()) all.push_back(std::move(f));
  return all;
}

}  // namespace opbound::faults
