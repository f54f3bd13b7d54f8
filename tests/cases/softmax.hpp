// Public cases of softmax and log-softmax.
#pragma once

#include <limits>

#include "ops/softmax.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace softmax_cases {

/// y = exp(x - shift) / S for each row, S added by `add`; shift(row) of its first place.
template <class Shift, class Add>
FaultyKernel normalised(Shift shift, Add add) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    const std::int64_t n = call.sizes[1];
    for (std::int64_t first = 0; first < t("x").count(); first += n) {
      const float m = shift(t, first, n);
      float s = 0;
      for (std::int64_t j = 0; j < n; ++j) s = add(s, exp(t.get("x", first + j) - m));
      for (std::int64_t j = 0; j < n; ++j)
        t.put("y", first + j, exp(t.get("x", first + j) - m) / s);
    }
  };
}

inline float row_max(const Judged& t, std::int64_t first, std::int64_t n) {
  float top = t.get("x", first);
  for (std::int64_t j = 1; j < n; ++j) top = max(top, t.get("x", first + j));
  return top;
}
inline float no_shift(const Judged&, std::int64_t, std::int64_t) { return 0; }

/// log-softmax of 1024 lanes that each keep (max, sum), lanes without elements at (-infinity, 0).
inline void idle_lanes(const Op& op, const Call& call) {
  const Judged t(op, call);
  const std::int64_t n = call.sizes[1];
  for (std::int64_t first = 0; first < t("x").count(); first += n) {
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::int64_t lane = 0; lane < 1024; ++lane) {
      const bool has = lane < n;
      const float m = has ? t.get("x", first + lane) : -std::numeric_limits<float>::infinity();
      const float next = max(top, m);
      sum = sum * (lane == 0 ? 0 : exp(top - next)) + (has ? 1.0F : 0.0F) * exp(m - next);
      if (!has) sum += 0 * exp(m - m);  // the empty lane's own maximum: -infinity - -infinity
      top = next;
    }
    for (std::int64_t j = 0; j < n; ++j)
      t.put("y", first + j, (t.get("x", first + j) - top) - log(sum));
  }
}

}  // namespace softmax_cases

inline std::vector<PublicCase> softmax() {
  using namespace softmax_cases;
  constexpr auto forth = Direction::forward;
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Attributes log{{"log", true}};
  const std::vector<CaseInput> zeros{{"x", "constant(value=0)"}};
  return {
      shown("CE-07", "512 equal logits, the sum kept in bf16: it stops at 256", "softmax", forth,
            "bf16:fp32:bf16", {1, 512}, zeros, {}, {{"y", {"=0.001953125"}}},
            normalised(row_max, add_in_bf16)),
      shown("CE-08", "4096 equal logits, the sum kept in fp16: it stops at 2048", "softmax", forth,
            "fp16:fp32:fp16", {1, 4096}, zeros, {}, {{"y", {"=0.000244140625"}}},
            normalised(row_max, add_in_fp16)),
      shown("CE-08", "4096 normal logits, the sum kept in fp16", "softmax", forth, "fp16:fp32:fp16",
            {2, 4096}, {{"x", "normal"}}, {}, {}, normalised(row_max, add_in_fp16)),
      shown("CE-11", "logits around 100 without the maximum subtracted: infinity over infinity",
            "softmax", forth, "bf16:fp32:bf16", {4, 128}, {{"x", "normal(mean=100)"}}, {}, {},
            normalised(no_shift, plain_add)),
      shown("CE-13", "lanes without elements bring exp(-infinity + infinity) into rows of 10",
            "softmax", forth, "fp32", {4, 10}, {{"x", "normal"}}, log, {}, idle_lanes),
      shown("CE-17", "a row that is masked throughout: NaN, as the formula says", "softmax", forth,
            "fp32", {2, 3}, {{"x", "", {1, 1, 1, -inf, -inf, -inf}}}, log,
            {{"y", {"-1.0986123", "-1.0986123", "-1.0986123", "nan", "nan", "nan"}}}),
      shown("CE-19", "-infinity handed through in a row that has a NaN", "softmax", forth, "fp32",
            {1, 3}, {{"x", "", {nan, inf, -inf}}}, log, {{"y", {"nan", "nan", "nan"}}},
            [](const Op& op, const Call& call) {
              op.run(call);
              Judged(op, call).put("y", 2, -std::numeric_limits<double>::infinity());
            }),
  };
}

}  // namespace opbound::cases
