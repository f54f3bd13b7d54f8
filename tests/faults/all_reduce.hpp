// Planted faults of all-reduce.
#pragma once

#include <algorithm>

#include "ops/all_reduce.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace all_reduce_faults {

using Values = std::vector<float>;

/// y[i] = f(the ranks' values of element i, i), in fp32.
template <class F>
Kernel each_by(F f) {
  return [f](const Op&, const Call& call) mutable {
    const auto& v = call.forward;
    const std::int64_t ranks = call.sizes[0], n = call.sizes[1];
    for (std::int64_t i = 0; i < n; ++i) {
      Values x;
      for (std::int64_t r = 0; r < ranks; ++r) x.push_back(static_cast<float>(v[0].at(r * n + i)));
      v[1].set(i, round_to(format_of(v[1].element), f(x, i, n)));
    }
  };
}

inline float sum(const Values& x) {
  float total = 0;
  for (const float v : x) total += v;
  return total;
}

template <class F, class Right>
FaultyKernel by(F f, Right right) {
  return {each_by(f), each_by(right)};
}
template <class F>
FaultyKernel of_sum(F f) {
  return by(f, [](const Values& x, std::int64_t, std::int64_t) { return sum(x); });
}

}  // namespace all_reduce_faults

inline std::vector<Fault> all_reduce() {
  using namespace all_reduce_faults;
  const Inputs normal{{"x", "normal"}};
  const auto forward = Direction::forward;
  const auto mean = [](const Values& x, std::int64_t, std::int64_t) {
    return sum(x) / static_cast<float>(x.size());
  };
  const auto largest = [](const Values& x, std::int64_t, std::int64_t) {
    float most = x[0];
    for (const float v : x) most = v != v || most != most ? v + most : std::max(most, v);
    return most;
  };
  return {
      planted("all_reduce", "wrong_divisor", "divided by the ranks of another group", forward,
              "bf16:fp32:bf16", {8, 60}, normal, {{"reduction", "mean"}},
              by([](const Values& x, std::int64_t,
                    std::int64_t) { return sum(x) / static_cast<float>(x.size() - 1); },
                 mean)),
      planted("all_reduce", "stale_shard", "one rank sends what the element before it was", forward,
              "fp32", {8, 60}, normal, {},
              {each_by([last = 0.0F](const Values& x, std::int64_t i, std::int64_t) mutable {
                 const float stale = i == 0 ? x[3] : last;
                 last = x[3];
                 return sum(x) - x[3] + stale;
               }),
               each_by([](const Values& x, std::int64_t, std::int64_t) { return sum(x); })}),
      planted("all_reduce", "double_count", "a ring goes one step too far", forward, "fp32",
              {8, 60}, normal, {}, of_sum([](const Values& x, std::int64_t, std::int64_t) {
                return sum(x) + x.front();
              })),
      planted("all_reduce", "dropped_tail", "elements beyond a multiple of 16 are not exchanged",
              forward, "fp32", {8, 60}, normal, {},
              of_sum([](const Values& x, std::int64_t i, std::int64_t n) {
                return i >= n / 16 * 16 ? x.front() : sum(x);
              })),
      planted("all_reduce", "dead_rank", "a rank that died counts as 0", forward, "bf16:fp32:bf16",
              {8, 60}, normal, {}, of_sum([](const Values& x, std::int64_t, std::int64_t) {
                return sum(x) - x.back();
              })),
      planted("all_reduce", "nan_lost_in_max", "a comparison that is false for NaN", forward,
              "fp32", {7, 61}, {{"x", "special"}}, {{"reduction", "max"}},
              by(
                  [](const Values& x, std::int64_t, std::int64_t) {
                    float most = x[0];
                    for (const float v : x)
                      if (v > most || most != most) most = v;
                    return most;
                  },
                  largest)),
      planted("all_reduce", "missing_wait", "a rank's last bucket is sent before it is written",
              forward, "fp32", {8, 60}, normal, {},
              of_sum([](const Values& x, std::int64_t i, std::int64_t n) {
                return i >= 2 * n / 3 ? sum(x) - x[5] : sum(x);
              })),
      planted("all_reduce", "local_as_global", "a rank's own squares are taken for all ranks'",
              forward, "fp32", {8, 60}, {{"x", "uniform(low=0, high=1)"}}, {},
              of_sum([](const Values& x, std::int64_t, std::int64_t) { return x.front(); })),
      planted("all_reduce", "summed_in_storage", "partial sums in bf16 although fp32 is declared",
              forward, "bf16:fp32:bf16", {64, 60}, {{"x", "uniform(low=0, high=1)"}}, {},
              of_sum([](const Values& x, std::int64_t, std::int64_t) {
                float total = 0;
                for (const float v : x) total = static_cast<float>(round_to(bf16, total + v));
                return total;
              })),
  };
}

}  // namespace opbound::faults
