// Planted faults of the logarithm of a sum of exponentials.
#pragma once

#include "ops/logsumexp.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace logsumexp_faults {

using Row = std::vector<float>;

/// y = f(row)
template <class F>
Kernel rows_by(F f) {
  return [f](const Op&, const Call& call) {
    const TensorView &x = call.forward[0], &y = call.forward[1];
    for (std::int64_t i = 0; i < call.sizes[0]; ++i)
      y.set(i, round_to(format_of(y.element), f(row_of(x, i))));
  };
}

/// dx_j = f(x_j, y, dy, the tensors, row)
template <class F>
Kernel gradients_by(F f) {
  return [f](const Op&, const Call& call) mutable {
    const auto& v = call.backward;
    const std::int64_t n = call.sizes[1];
    for (std::int64_t i = 0; i < v[0].count(); ++i)
      v[3].set(i, round_to(format_of(v[3].element),
                           f(static_cast<float>(v[0].at(i)), static_cast<float>(v[1].at(i / n)),
                             static_cast<float>(v[2].at(i / n)), i / n)));
  };
}

/// In double: the bound is that of another order of summation.
inline double right_value(const Row& x) {
  const double top = largest(x);
  double s = 0;
  for (const float v : x) s += exp(v - top);
  return top + log(s);
}
template <class F>
FaultyKernel by_row(F f) {
  return {rows_by(f), rows_by(right_value)};
}
template <class F>
FaultyKernel backward_with(F f) {
  return {gradients_by(f),
          gradients_by([](float x, float y, float dy, std::int64_t) { return dy * exp(x - y); })};
}

}  // namespace logsumexp_faults

inline std::vector<Fault> logsumexp() {
  using namespace logsumexp_faults;
  const Inputs inputs{{"x", "normal(sigma=3)"}, {"dy", "normal"}};
  const auto forward = [](std::string_view name, std::string_view what, std::string_view x,
                          auto run) {
    return planted("logsumexp", name, what, {}, "fp32", {8, 128}, {{"x", x}}, {}, by_row(run));
  };
  const auto backward = [&](std::string_view name, std::string_view what, auto run) {
    return planted("logsumexp", name, what, Direction::backward_local, "bf16:fp32:bf16", {8, 128},
                   inputs, {}, backward_with(run));
  };
  return {
      forward("no_max_subtraction", "log sum exp(x), which overflows", "normal(mean=95)",
              [](const Row& x) {
                float s = 0;
                for (const float v : x) s += exp(v);
                return log(s);
              }),
      forward("maximum_not_added_back", "log sum exp(x - max)", "normal(sigma=3)",
              [](const Row& x) {
                float s = 0;
                for (const float v : x) s += exp(v - largest(x));
                return log(s);
              }),
      forward("sum_in_bf16", "the sum kept in bf16", "normal",
              [](const Row& x) {
                float s = 0;
                for (const float v : x) s = in_bf16(s + exp(v - largest(x)));
                return largest(x) + log(s);
              }),
      forward("last_dropped", "the sum leaves out the last element", "constant(value=2)",
              [](const Row& x) {
                float s = 0;
                for (std::size_t j = 0; j + 1 < x.size(); ++j) s += exp(x[j] - largest(x));
                return largest(x) + log(s);
              }),
      forward("log2_for_log", "log2 S", "normal(sigma=3)",
              [](const Row& x) {
                float s = 0;
                for (const float v : x) s += exp(v - largest(x));
                return largest(x) + log(s) * 1.442695F;
              }),
      forward("masked_tail_as_zero", "eight padding elements of 0", "normal(mean=-3)",
              [](const Row& x) {
                Row padded = x;
                padded.resize(x.size() + 8, 0);
                float s = 0;
                for (const float v : padded) s += exp(v - largest(padded));
                return largest(padded) + log(s);
              }),
      backward("first_upstream_for_all", "dy[0] for every row",
               [first = 0.0F](float x, float y, float dy, std::int64_t row) mutable {
                 if (row == 0) first = dy;
                 return first * exp(x - y);
               }),
      backward("without_y", "dy exp(x)",
               [](float x, float, float dy, std::int64_t) { return dy * exp(x); }),
      backward("difference_in_bf16", "x - y rounded to bf16",
               [](float x, float y, float dy, std::int64_t) { return dy * exp(in_bf16(x - y)); }),
  };
}

}  // namespace opbound::faults
