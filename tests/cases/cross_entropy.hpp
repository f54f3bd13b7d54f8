// Public cases of cross_entropy.
#pragma once

#include "ops/cross_entropy.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace cross_entropy_cases {

/// The right kernel, then the loss of some rows taken from another row of logits.
inline void wrapped_offsets(const Op& op, const Call& call) {
  op.run(call);
  const Judged t(op, call);
  const std::int64_t n = call.sizes[1];
  for (std::int64_t r = 0; r < call.sizes[0]; ++r) {
    const std::int64_t first = (r * n) % 65536;  // 16 bits here, 32 bits in the report
    float s = 0;
    for (std::int64_t j = 0; j < n; ++j) s += exp(t.get("logits", first + j));
    t.put("loss", r, log(s) - t.get("logits", first + t.index("targets", r)));
  }
}

/// The right kernel, then the mean of its losses added in fp16.
inline void mean_in_fp16(const Op& op, const Call& call) {
  op.run(call);
  const Judged t(op, call);
  float s = 0;
  for (std::int64_t r = 0; r < call.sizes[0]; ++r) s = in_fp16(s + t.get("loss", r));
  t.put("reduced", 0, s / static_cast<float>(call.sizes[0]));
}

/// Smoothing's share of the loss: s / V sum_j (lse - x_j), its sum over j made by `add`.
template <class Add>
float smoothing_of(const Judged& t, const Call& call, std::int64_t row, float smoothing, Add add) {
  const std::int64_t n = call.sizes[1];
  float s = 0, all = 0;
  for (std::int64_t j = 0; j < n; ++j) s += exp(t.get("logits", row * n + j));
  for (std::int64_t j = 0; j < n; ++j) all = add(all, t.get("logits", row * n + j));
  return smoothing * (log(s) - all / static_cast<float>(n));
}

}  // namespace cross_entropy_cases

inline std::vector<PublicCase> cross_entropy() {
  using namespace cross_entropy_cases;
  constexpr auto forth = Direction::forward;
  const auto reduced = [](const char* how) { return AttributeValue(std::string(how)); };
  return {
      shown("CE-01", "row * vocab wraps: rows past the edge read another row's logits",
            "cross_entropy", forth, "fp16:fp32:fp16", {10, 8192, 1},
            {{"logits", "normal"}, {"targets", "index"}}, {{"reduction", reduced("none")}}, {},
            wrapped_offsets),
      shown("CE-02", "the losses of 7000 rows added in fp16: infinity", "cross_entropy", forth,
            "fp16:fp32:fp16", {7000, 16, 1},
            {{"logits", "uniform(low=0, high=30)"}, {"targets", "index"}},
            {{"reduction", reduced("mean")}}, {}, mean_in_fp16),
      shown("CE-04", "label smoothing of a row that is to be ignored", "cross_entropy", forth,
            "fp32", {2, 2, 1}, {{"logits", "", {0, 0, 10, -10}}, {"targets", "", {0, -100}}},
            {{"reduction", reduced("sum")}, {"label_smoothing", 0.2}},
            {{"reduced", {"0.693147"}}, {"loss", {"0.693147", "=0"}}},
            [](const Op& op, const Call& call) {
              op.run(call);
              const Judged t(op, call);
              const float added =
                  smoothing_of(t, call, 1, 0.2F, [](float a, float b) { return a + b; });
              t.put("reduced", 0, t.get("reduced", 0) + added);
            }),
      shown("CE-05", "the mean over targets that are all ignored: 0 / 0", "cross_entropy", forth,
            "fp32", {5, 10, 1}, {{"logits", "normal"}, {"targets", "", {-100}}},
            {{"reduction", reduced("mean")}}, {{"reduced", {"nan"}}, {"loss", {"=0", "=0"}}}),
      shown("CE-14", "the first token's upstream gradient for all", "cross_entropy",
            Direction::backward_full, "fp32", {8, 15, 1},
            {{"logits", "normal"}, {"targets", "index"}, {"dloss", "", {0, 1, 1, 1}}},
            Attributes{{"reduction", reduced("none")}}, {},
            [](const Op& op, const Call& call) {
              Call other = call;
              Tensor first(call.backward[3].element, {call.sizes[0]});
              first.fill(call.backward[3].at(0));
              other.backward[3] = first.view();
              op.run(other);
            }),
      shown("CE-16", "a smoothed loss whose sum of logits is kept in fp16: infinity",
            "cross_entropy", forth, "fp16:fp32:fp16", {2, 4096, 1},
            {{"logits", "normal(mean=20)"}, {"targets", "index"}},
            {{"reduction", reduced("none")}, {"label_smoothing", 0.7336}}, {},
            [](const Op& op, const Call& call) {
              op.run(call);
              const Judged t(op, call);
              const auto add = [](float a, float b) { return in_fp16(a + b); };
              for (std::int64_t r = 0; r < 2; ++r)
                t.put("loss", r, smoothing_of(t, call, r, 0.7336F, add));
            }),
  };
}

}  // namespace opbound::cases
