// Planted faults of bias.
#pragma once

#include "ops/bias.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace bias_faults {

/// y = f(x, bias of column c) in fp32, the bias read by f(b, c, n).
template <class Read, class F>
Kernel rows_by(Read read, F f) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.forward;
    const std::int64_t n = call.sizes[1];
    for (std::int64_t i = 0; i < v[0].count(); ++i) {
      const auto b = static_cast<float>(v[1].at(read(i / n, i % n, n)));
      v[2].set(i, round_to(format_of(v[2].element), f(static_cast<float>(v[0].at(i)), b)));
    }
  };
}

/// dx = dy; db = the column's rows first ... last - 1 taken together by `add`.
template <class Add>
Kernel sums_by(std::int64_t left_out, Add add) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.backward;
    const std::int64_t rows = call.sizes[0], n = call.sizes[1];
    for (std::int64_t i = 0; i < v[0].count(); ++i) v[1].set(i, v[0].at(i));
    for (std::int64_t c = 0; c < n; ++c) {
      float total = 0;
      for (std::int64_t r = 0; r < rows - left_out; ++r)
        total = add(total, static_cast<float>(v[0].at(r * n + c)));
      v[2].set(c, round_to(format_of(v[2].element), total));
    }
  };
}

inline std::int64_t own_column(std::int64_t, std::int64_t c, std::int64_t) { return c; }

template <class Read, class F>
FaultyKernel forward(Read read, F f) {
  return {rows_by(read, f), rows_by(own_column, plain_add)};
}
template <class Add>
FaultyKernel backward(std::int64_t left_out, Add add) {
  return {sums_by(left_out, add), sums_by(0, plain_add)};
}

}  // namespace bias_faults

inline std::vector<Fault> bias() {
  using namespace bias_faults;
  constexpr auto local = Direction::backward_local;
  const Inputs both{{"x", "normal"}, {"b", "normal"}}, normal{{"dy", "normal"}},
      ones{{"dy", "constant(value=1)"}};
  return {
      planted(
          "bias", "bias_by_row", "b[r mod n] for b[c]", {}, "fp32", {8, 5}, both, {},
          forward([](std::int64_t r, std::int64_t, std::int64_t n) { return r % n; }, plain_add)),
      planted("bias", "next_bias", "b[c + 1], an offset by one", {}, "bf16:fp32:bf16", {8, 5}, both,
              {},
              forward([](std::int64_t, std::int64_t c, std::int64_t n) { return (c + 1) % n; },
                      plain_add)),
      planted("bias", "bias_in_bf16", "b rounded to bf16 before the sum", {}, "fp32", {8, 5}, both,
              {}, forward(own_column, [](float x, float b) { return x + in_bf16(b); })),
      planted("bias", "truncated_store", "the output truncated instead of rounded to nearest", {},
              "bf16:fp32:bf16", {8, 16}, both, {}, truncating()),
      planted("bias", "bf16_accumulation", "db summed in bf16: stuck at 256", local,
              "bf16:fp32:bf16", {1000, 3}, ones, {}, backward(0, add_in_bf16)),
      planted("bias", "fp16_accumulation", "db summed in fp16", local, "fp16:fp32:fp16", {1000, 3},
              normal, {}, backward(0, add_in_fp16)),
      planted("bias", "dropped_row", "db without the last row", local, "bf16:fp32:bf16", {129, 3},
              normal, {}, backward(1, plain_add)),
      planted("bias", "mean_for_sum", "db divided by the number of rows", local, "fp32", {64, 3},
              normal, {}, then([](const Judged& t, const Call&) {
                for (std::int64_t c = 0; c < t("db").count(); ++c)
                  t.put("db", c, t("db").at(c) / 64);
              })),
  };
}

}  // namespace opbound::faults
