// Planted faults of bias.
#pragma once

#include "ops/bias.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace bias_faults {

using Inputs = std::vector<std::pair<std::string_view, std::string_view>>;

inline float in_bf16(float x) { return static_cast<float>(round_to(bf16, x)); }

/// y = f(x, bias of column c) in fp32, the bias read by f(b, c, n).
template <class Read, class F>
std::function<void(const Op&, const Call&)> forward(Read read, F f) {
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
std::function<void(const Op&, const Call&)> backward(std::int64_t left_out, Add add) {
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
inline float plain_add(float a, float b) { return a + b; }

}  // namespace bias_faults

inline std::vector<Fault> bias() {
  using namespace bias_faults;
  constexpr auto local = Direction::backward_local;
  const Inputs both{{"x", "normal"}, {"b", "normal"}}, normal{{"dy", "normal"}},
      ones{{"dy", "constant(value=1)"}};
  return {
      {"bias",
       "bias_by_row",
       "b[r mod n] for b[c]",
       {},
       "fp32",
       {8, 5},
       both,
       {},
       forward([](std::int64_t r, std::int64_t, std::int64_t n) { return r % n; }, plain_add)},
      {"bias",
       "next_bias",
       "b[c + 1], an offset by one",
       {},
       "bf16:fp32:bf16",
       {8, 5},
       both,
       {},
       forward([](std::int64_t, std::int64_t c, std::int64_t n) { return (c + 1) % n; },
               plain_add)},
      {"bias",
       "bias_in_bf16",
       "b rounded to bf16 before the sum",
       {},
       "fp32",
       {8, 5},
       both,
       {},
       forward(own_column, [](float x, float b) { return x + in_bf16(b); })},
      {"bias",
       "truncated_store",
       "the output truncated instead of rounded to nearest",
       {},
       "bf16:fp32:bf16",
       {8, 16},
       both,
       {},
       truncating(2)},
      {"bias",
       "bf16_accumulation",
       "db summed in bf16: stuck at 256",
       local,
       "bf16:fp32:bf16",
       {1000, 3},
       ones,
       {},
       backward(0, [](float a, float b) { return in_bf16(a + b); })},
      {"bias",
       "fp16_accumulation",
       "db summed in fp16",
       local,
       "fp16:fp32:fp16",
       {1000, 3},
       normal,
       {},
       backward(0, [](float a, float b) { return static_cast<float>(round_to(fp16, a + b)); })},
      {"bias",
       "dropped_row",
       "db without the last row",
       local,
       "bf16:fp32:bf16",
       {129, 3},
       normal,
       {},
       backward(1, plain_add)},
      {"bias",
       "mean_for_sum",
       "db divided by the number of rows",
       local,
       "fp32",
       {64, 3},
       normal,
       {},
       [](const Op& op, const Call& call) {
         op.run(call);
         const TensorView db = call.backward[2];
         for (std::int64_t c = 0; c < db.count(); ++c)
           db.set(c, round_to(format_of(db.element), db.at(c) / 64));
       }},
  };
}

}  // namespace opbound::faults
