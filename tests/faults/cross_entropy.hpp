// Planted faults of cross entropy.
#pragma once

#include "ops/cross_entropy.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace cross_entropy_faults {

using Row = std::vector<float>;
constexpr auto local = Direction::backward_local;

inline float store_in(const TensorView& v, float x) { return rounded(format_of(v.element), x); }

inline float log_sum(const Row& x, float top) {
  float s = 0;
  for (const float v : x) s += exp(v - top);
  return log(s);
}

/// What a faulty forward kernel makes of a row: its loss and lse.
struct RowLoss {
  float loss, lse;
};

inline RowLoss right_loss(const Row& x, std::int64_t target) {
  const float top = largest(x), log_s = log_sum(x, top);
  return {log_s + (top - x[static_cast<std::size_t>(target)]), top + log_s};
}

/// The whole forward pass from a loss for each row that is not ignored, and a divisor for the mean.
template <class Loss, class Divisor>
Kernel rows_by(Loss loss_of, Divisor divisor_of) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.forward;
    float total = 0;
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < call.sizes[0]; ++i) {
      const std::int64_t target = index_at(v[1], i);
      const bool ignored = target == -100;
      const RowLoss r = loss_of(row_of(v[0], i), ignored ? 0 : target);
      const float loss = ignored ? 0 : r.loss;
      v[3].set(i, loss);
      v[4].set(i, r.lse);
      total += loss;
      counted += ignored ? 0 : 1;
    }
    if (v[5].count() == 1)
      v[5].set(0, store_in(v[5], total / static_cast<float>(divisor_of(call.sizes[0], counted))));
  };
}

inline std::int64_t counted_only(std::int64_t, std::int64_t counted) { return counted; }

/// With the right loss and divisor as its control.
template <class Loss, class Divisor>
FaultyKernel forward_with(Loss loss_of, Divisor divisor_of) {
  return {rows_by(loss_of, divisor_of), rows_by(right_loss, counted_only)};
}
template <class Loss>
FaultyKernel loss_by(Loss loss_of) {
  return forward_with(loss_of, counted_only);
}

/// The loss of a row, a tenth of it smoothed: `share` times sum_j (lse - x_j).
inline auto smoothed(float share) {
  return [share](const Row& x, std::int64_t t) {
    const RowLoss right = right_loss(x, t);
    float smooth = 0;
    for (const float v : x) smooth += right.lse - v;
    return RowLoss{0.9F * right.loss + 0.1F * share * smooth, right.lse};
  };
}
inline FaultyKernel smoothed_with(float share) {
  return {rows_by(smoothed(share), counted_only), rows_by(smoothed(1.0F / 128), counted_only)};
}

/// dlogits of every row that is not ignored: g and what stands for p - q of element j.
template <class Upstream, class Difference>
Kernel gradients_by(Upstream g_of, Difference difference) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.backward;
    const std::int64_t n = call.sizes[1];
    for (std::int64_t i = 0; i < call.sizes[0]; ++i) {
      const std::int64_t target = index_at(v[1], i);
      const Row x = row_of(v[0], i);
      const auto lse = static_cast<float>(v[2].at(i));
      for (std::int64_t j = 0; j < n; ++j) {
        const float d = x[static_cast<std::size_t>(j)] - lse;
        const float dx = target == -100 ? 0 : g_of(call, i) * difference(d, j == target, n);
        v[6].set(i * n + j, store_in(v[6], dx));
      }
    }
  };
}

inline float own_upstream(const Call& c, std::int64_t i) {
  return static_cast<float>(c.backward[3].at(i));
}
inline std::int64_t counted_in(const Call& c) {
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < c.sizes[0]; ++i) counted += index_at(c.backward[1], i) != -100;
  return counted;
}
inline float mean_upstream(const Call& c, std::int64_t rows) {
  return static_cast<float>(c.backward[4].at(0)) / static_cast<float>(rows);
}
inline float right_difference(float d, bool is_target, std::int64_t) {
  return exp(d) - (is_target ? 1.0F : 0.0F);
}

template <class Upstream, class Difference>
FaultyKernel backward_with(Upstream g_of, Difference difference) {
  return {gradients_by(g_of, difference), gradients_by(own_upstream, right_difference)};
}

inline Attributes per_row() { return {{"reduction", std::string("none")}}; }

inline auto smoothed_difference(float of_target) {
  return [of_target](float d, bool is_target, std::int64_t n) {
    return exp(d) - (is_target ? of_target : 0.0F) - 0.1F / static_cast<float>(n);
  };
}

inline std::vector<Fault> forward_faults() {
  const Inputs inputs{{"logits", "normal(sigma=3)"}, {"targets", "index"}},
      ignoring{{"logits", "normal(sigma=3)"}, {"targets", "index(ignored=0.4)"}},
      high{{"logits", "normal(mean=95)"}, {"targets", "index"}};
  const auto fault = [&](std::string_view name, std::string_view what, const Inputs& in, auto run) {
    return planted("cross_entropy", name, what, {}, "bf16:fp32:bf16", {8, 128, 1}, in, {}, run);
  };
  return {
      fault("no_max_subtraction", "log sum exp(x) without the maximum", high,
            loss_by([](const Row& x, std::int64_t t) {
              const float lse = log_sum(x, 0);
              return RowLoss{lse - x[static_cast<std::size_t>(t)], lse};
            })),
      fault("mean_over_all_rows", "the mean divides by all rows, ignored ones too", ignoring,
            forward_with(right_loss, [](std::int64_t rows, std::int64_t) { return rows; })),
      fault("ignored_row_in_the_sum", "one ignored target's loss, taken as target 0, is added",
            ignoring, then([](const Judged&, const Call& call) {
              const auto& v = call.forward;
              for (std::int64_t i = 0; i < call.sizes[0]; ++i) {
                if (index_at(v[1], i) != -100) continue;
                v[3].set(i, right_loss(row_of(v[0], i), 0).loss);
                return;
              }
            })),
      fault("last_entry_dropped", "the sum leaves out the last of the vocabulary", inputs,
            loss_by([](const Row& x, std::int64_t t) {
              const Row shorter(x.begin(), x.end() - 1);
              const float top = largest(x), log_s = log_sum(shorter, top);
              return RowLoss{log_s + (top - x[static_cast<std::size_t>(t)]), top + log_s};
            })),
      fault("padded_vocabulary", "the padding up to a multiple of 8 enters with logits 0", inputs,
            loss_by([](const Row& x, std::int64_t t) {
              Row padded = x;
              padded.resize(x.size() + 8, 0);
              return right_loss(padded, t);
            })),
      fault("lse_in_bf16", "lse rounded to bf16 before x_t is subtracted", inputs,
            loss_by([](const Row& x, std::int64_t t) {
              const float lse = in_bf16(right_loss(x, t).lse);
              return RowLoss{lse - x[static_cast<std::size_t>(t)], lse};
            })),
      fault("sum_in_bf16", "sum exp(x - max) kept in bf16", inputs,
            loss_by([](const Row& x, std::int64_t t) {
              const float top = largest(x);
              float s = 0;
              for (const float v : x) s = in_bf16(s + exp(v - top));
              return RowLoss{log(s) + (top - x[static_cast<std::size_t>(t)]), top + log(s)};
            })),
      planted("cross_entropy", "smoothing_without_share",
              "s sum_j (lse - x_j) without 1 / vocabulary", {}, "fp32", {8, 128, 1}, inputs,
              {{"label_smoothing", 0.1}}, smoothed_with(1)),
      planted("cross_entropy", "smoothing_with_other_classes",
              "s / (vocabulary - 1) over all classes", {}, "fp32", {8, 128, 1}, inputs,
              {{"label_smoothing", 0.1}}, smoothed_with(1.0F / 127)),
      planted("cross_entropy", "index_in_16_bits", "targets read as 16-bit integers", {},
              "bf16:fp32:bf16", {2, 70000, 1},
              {{"logits", "normal"}, {"targets", "same_index(value=65800)"}}, {},
              loss_by([](const Row& x, std::int64_t t) { return right_loss(x, t & 0xffff); })),
  };
}

inline std::vector<Fault> backward_faults() {
  const Inputs inputs{{"logits", "normal(sigma=3)"},
                      {"targets", "index(ignored=0.2)"},
                      {"dloss", "normal"},
                      {"dreduced", "uniform(low=0.5, high=2)"}};
  const auto fault = [&](std::string_view name, std::string_view what, auto run) {
    return planted("cross_entropy", name, what, local, "bf16:fp32:bf16", {8, 128, 1}, inputs,
                   per_row(), run);
  };
  return {
      fault("target_without_one", "p where p - 1 belongs",
            backward_with(own_upstream, [](float d, bool, std::int64_t) { return exp(d); })),
      fault("first_upstream_for_all", "dloss[0] for every row",
            backward_with([](const Call& c, std::int64_t) { return own_upstream(c, 0); },
                          right_difference)),
      fault("probability_in_bf16", "p rounded to bf16 before 1 is subtracted",
            backward_with(own_upstream,
                          [](float d, bool is_target, std::int64_t) {
                            return static_cast<float>(round_to(bf16, exp(d))) -
                                   (is_target ? 1.0F : 0.0F);
                          })),
      fault("ignored_rows_get_gradient", "ignored rows are not set to 0",
            then([](const Judged&, const Call& call) {
              const auto& v = call.backward;
              for (std::int64_t i = 0; i < call.sizes[0]; ++i) {
                if (index_at(v[1], i) != -100) continue;
                const auto lse = static_cast<float>(v[2].at(i));
                const Row x = row_of(v[0], i);
                for (std::int64_t j = 0; j < call.sizes[1]; ++j)
                  v[6].set(i * call.sizes[1] + j,
                           store_in(v[6], own_upstream(call, i) *
                                              exp(x[static_cast<std::size_t>(j)] - lse)));
              }
            })),
      planted("cross_entropy", "smoothing_twice", "label smoothing applied to the target twice",
              local, "fp32", {8, 128, 1}, inputs,
              {{"reduction", std::string("none")}, {"label_smoothing", 0.1}},
              FaultyKernel(gradients_by(own_upstream, smoothed_difference(0.81F)),
                           gradients_by(own_upstream, smoothed_difference(0.9F)))),
      planted(
          "cross_entropy", "mean_over_all_rows_backward",
          "dreduced divided by all rows, ignored ones too", local, "bf16:fp32:bf16", {8, 128, 1},
          inputs, {},
          FaultyKernel(
              gradients_by([](const Call& c, std::int64_t) { return mean_upstream(c, c.sizes[0]); },
                           right_difference),
              gradients_by(
                  [](const Call& c, std::int64_t) { return mean_upstream(c, counted_in(c)); },
                  right_difference))),
  };
}

}  // namespace cross_entropy_faults

inline std::vector<Fault> cross_entropy() {
  return joined(cross_entropy_faults::forward_faults(), cross_entropy_faults::backward_faults());
}

}  // namespace opbound::faults
