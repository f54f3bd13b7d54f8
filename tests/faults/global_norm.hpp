// Planted faults of global_norm.
#pragma once

#include "ops/global_norm.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace global_norm_faults {

using Shards = std::vector<std::vector<float>>;

/// norm = f(the gradients of every shard), over fp32.
template <class F>
Kernel root_by(F f) {
  return [f](const Op&, const Call& call) {
    const TensorView &g = call.forward.front(), &norm = call.forward.back();
    Shards shards;
    for (std::int64_t s = 0; s < call.sizes[0]; ++s) {
      auto& shard = shards.emplace_back();
      for (std::int64_t i = 0; i < call.sizes[1]; ++i)
        shard.push_back(static_cast<float>(g.at(s * call.sizes[1] + i)));
    }
    norm.set(0, round_to(format_of(norm.element), f(shards)));
  };
}

/// The sum of term(g) over a shard, rounded to `format` at each step. Where no format is at fault,
/// double: the bound is that of another order of summation.
template <class F>
double sum(const std::vector<float>& shard, F term, const Format& format = fp64) {
  double total = 0;
  for (const float x : shard) total = round_to(format, total + term(x));
  return total;
}

inline double square(double x) { return x * x; }

/// The root of the sum of every shard's sum.
template <class F>
double root_of(const Shards& shards, F shard_sum) {
  double total = 0;
  for (const auto& s : shards) total += shard_sum(s);
  return sqrt(total);
}

template <class F>
FaultyKernel norm_by(F f) {
  return {root_by(f), root_by([](const Shards& s) {
            return root_of(s, [](const auto& x) { return sum(x, square); });
          })};
}

}  // namespace global_norm_faults

inline std::vector<Fault> global_norm() {
  using namespace global_norm_faults;
  const auto with = [](std::string_view name, std::string_view what, std::string_view precision,
                       std::string_view input, auto f) {
    return planted("global_norm", name, what, {}, precision, {4, 64, 1}, {{"g", input}}, {},
                   norm_by(f));
  };
  const auto all = [](const auto& s) { return sum(s, square); };
  return {
      with("local_shard_only", "the norm of the first shard", "bf16:fp32:bf16", "normal",
           [=](const Shards& s) { return sqrt(all(s[0])); }),
      with("norms_added", "the sum of the shards' norms", "bf16:fp32:bf16", "normal",
           [=](const Shards& s) {
             double total = 0;
             for (const auto& shard : s) total += sqrt(all(shard));
             return total;
           }),
      with("no_root", "the sum of squares", "fp32", "normal",
           [=](const Shards& s) { return square(root_of(s, all)); }),
      with("absolute_values", "sum |g|: the 1-norm", "fp32", "normal",
           [](const Shards& s) {
             double total = 0;
             for (const auto& shard : s) total += sum(shard, [](float x) { return abs(x); });
             return total;
           }),
      with("squares_in_fp16", "squares and their sum in fp16: 300^2 is infinite", "fp16:fp32:fp32",
           "constant(value=300)",
           [](const Shards& s) {
             return root_of(s, [](const auto& x) {
               return sum(
                   x, [](float v) { return rounded(fp16, v * v); }, fp16);
             });
           }),
      with("small_squares_vanish", "squares in fp16: below 1.7e-4 they are 0", "fp16:fp32:fp32",
           "constant(value=0.0001)",
           [](const Shards& s) {
             return root_of(s, [](const auto& x) {
               return sum(x, [](float v) { return rounded(fp16, v * v); });
             });
           }),
      with("bf16_accumulation", "the sum of squares kept in bf16", "bf16:fp32:fp32", "normal",
           [](const Shards& s) {
             return root_of(s, [](const auto& x) { return sum(x, square, bf16); });
           }),
      with("bf16_shard_norms", "the shards' norms rounded to bf16 before they are combined",
           "bf16:fp32:fp32", "normal",
           [=](const Shards& s) {
             return root_of(s, [=](const auto& x) { return square(round_to(bf16, sqrt(all(x)))); });
           }),
      with("last_shard_dropped", "the sum leaves out the last shard", "fp32", "normal",
           [=](Shards s) {
             s.pop_back();
             return root_of(s, all);
           }),
      with("plain_for_scaled", "squares overflow where scaling is declared", "fp32",
           "constant(value=1e25)",
           [](const Shards& s) {
             return root_of(s, [](const auto& x) { return sum(x, square, fp32); });
           }),
      with("nan_ignored", "NaN compares false, so that it is left out", "fp32",
           "one_hot(value=nan, background=1)",
           [](const Shards& s) {
             return root_of(s, [](const auto& x) {
               return sum(x, [](float v) { return v == v ? v * v : 0; });
             });
           }),
  };
}

}  // namespace opbound::faults
