// Public cases of attention.
#pragma once

#include <algorithm>
#include <limits>

#include "ops/attention.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace attention_cases {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline Attributes masked(const char* how) { return {{"mask", std::string(how)}}; }

/// The tensor of the judged pass at this name, replaced on the way into the right kernel by
/// element(i) of itself.
template <class F>
FaultyKernel reading(std::string_view name, F element) {
  return [=](const Op& op, const Call& call) {
    Call other = call;
    auto& views = call.direction == Direction::forward ? other.forward : other.backward;
    const auto tensors = op.pass(call.direction).tensors;
    std::size_t place = 0;
    while (tensors[place].name != name) ++place;
    const TensorView as_given = views[place];
    Tensor changed(as_given.element, {as_given.count()});
    for (std::int64_t i = 0; i < as_given.count(); ++i)
      changed.set(i, element(as_given, call.sizes, i));
    TensorView view = changed.view();
    TensorView& to = views[place];
    to.data = view.data;
    std::int64_t stride = 1;
    for (int axis = to.rank - 1; axis >= 0; stride *= to.size[axis--]) to.stride[axis] = stride;
    op.run(other);
  };
}

/// The right kernel, then these outputs changed to f(value, i).
template <class F>
FaultyKernel then(const std::vector<std::string_view>& outputs, F f) {
  return [=](const Op& op, const Call& call) {
    op.run(call);
    const Judged t(op, call);
    for (const std::string_view name : outputs)
      for (std::int64_t i = 0; i < t(name).count(); ++i) t.put(name, i, f(t, name, call, i));
  };
}

/// The element of `axes` (heads, queries, last) that stands at place i when the first two axes are
/// swapped.
inline std::int64_t swapped(const Sizes& s, std::int64_t last, std::int64_t i) {
  const std::int64_t heads = s[0], queries = s[2], row = i / last;
  return (row % queries * heads + row / queries) * last + i % last;
}

/// Queries of (1, 0.1 ...) and keys of (-960, 0.1 ...): every score near -120.
inline std::vector<double> with_first(double first) {
  std::vector<double> x{first};
  for (int i = 1; i < 64; ++i) x.push_back(0.1 * ((i * 7) % 11 - 5) / 5);
  return x;
}

inline std::vector<PublicCase> of_masks() {
  constexpr auto forth = Direction::forward, full = Direction::backward_full;
  const std::vector<CaseInput> last_row_empty{{"q", "normal"},
                                              {"k", "normal"},
                                              {"v", "normal"},
                                              {"do", "normal"},
                                              {"mask", "", {1, 0, 0, 1, 1, 0, 0, 0, 0}}};
  const std::vector<std::int64_t> small{1, 1, 3, 3, 4};
  std::vector<double> first_128(200, 0.0);
  std::fill(first_128.begin(), first_128.begin() + 128, -3.4028234663852886e38);
  const std::vector<CaseInput> normal{{"q", "normal"}, {"k", "normal"}, {"v", "normal"}};
  auto with_bias = normal, with_low_bias = normal, with_mask = normal;
  with_bias.push_back({"bias", "", first_128});
  with_low_bias.push_back({"bias", "", {-65504}});
  with_mask.push_back({"mask", "mask"});
  return {
      shown("ATT-01", "a row without a key: 0 times NaN reaches all gradients", "attention", full,
            "fp32", small, last_row_empty, masked("boolean"), {},
            then({"dk", "dv"}, [](const Judged&, auto, const Call&, std::int64_t) { return nan; })),
      shown("ATT-02", "a row without a key: NaN", "attention", forth, "fp32", small, last_row_empty,
            masked("boolean"), {{"o", {"", "", "", "", "", "", "", "", "=0", "=0", "=0", "=0"}}},
            then({"o"}, [](const Judged& t, auto, const Call&,
                           std::int64_t i) { return i < 8 ? t.get("o", i) : nan; })),
      shown("ATT-02", "a row without a key: the mean of all values", "attention", forth, "fp32",
            small, last_row_empty, masked("boolean"), {},
            then({"o"},
                 [](const Judged& t, auto, const Call&, std::int64_t i) {
                   const std::int64_t c = i % 4;
                   return i < 8 ? t.get("o", i)
                                : (t.get("v", c) + t.get("v", 4 + c) + t.get("v", 8 + c)) / 3;
                 })),
      shown("ATT-04",
            "a first tile of nothing but the lowest number: the maximum is taken for -infinity",
            "attention", forth, "fp32", {1, 1, 4, 200, 8}, with_bias, masked("additive"), {},
            reading("bias",
                    [](const TensorView& bias, const Sizes&, std::int64_t i) {
                      return bias.at(i) < -3e38 ? std::numeric_limits<double>::quiet_NaN()
                                                : bias.at(i);
                    })),
      shown("ATT-05", "row * keys wraps: rows past the edge read another row's mask", "attention",
            forth, "bf16:fp32:bf16", {1, 1, 270, 270, 4}, with_mask, masked("boolean"), {},
            reading("mask",
                    [](const TensorView& mask, const Sizes& s, std::int64_t i) {
                      const std::int64_t row =
                          i / s[3] * s[3] % 65536;  // 16 bits here, 32 bits in the report
                      return mask.at((row + i % s[3]) % mask.count());
                    })),
      shown("ATT-20", "two masks added in fp16: -65504 - 16 is -infinity for the whole row",
            "attention", forth, "fp16:fp32:fp16", {1, 1, 4, 8, 8}, with_low_bias,
            masked("additive"), {},
            reading("bias",
                    [](const TensorView& bias, const Sizes&, std::int64_t i) {
                      return bias.at(i) - 16 <= -65520 ? -inf : bias.at(i) - 16;
                    })),
  };
}

inline std::vector<PublicCase> of_forward() {
  constexpr auto forth = Direction::forward;
  const std::vector<CaseInput> normal{{"q", "normal"}, {"k", "normal"}, {"v", "normal"}};
  const auto only_first = [](std::int64_t kept) {
    return reading("mask", [kept](const TensorView& mask, const Sizes& s, std::int64_t i) {
      return i % s[3] < kept ? mask.at(i) : 0.0;
    });
  };
  auto seen = normal;
  seen.push_back({"mask", "", {1}});
  return {
      shown("ATT-07", "one key more than a tile of 32: the last one left out", "attention", forth,
            "bf16:fp32:bf16", {4, 2, 3, 33, 16}, seen, masked("boolean"), {}, only_first(32)),
      shown("ATT-22", "keys past 512 left out of a decoding step", "attention", forth,
            "bf16:fp32:bf16", {2, 1, 1, 600, 16}, seen, masked("boolean"), {}, only_first(512)),
  };
}

inline std::vector<PublicCase> of_backward() {
  constexpr auto full = Direction::backward_full, local = Direction::backward_local;
  const std::vector<CaseInput> normal{
      {"q", "normal"}, {"k", "normal"}, {"v", "normal"}, {"do", "normal"}};
  return {
      shown("ATT-08", "padded keys score 0: exp(0 - lse) is infinite for lse = -120, times 0 NaN",
            "attention", local, "bf16:fp32:bf16", {1, 1, 4, 4, 64},
            {{"q", "", with_first(1)},
             {"k", "", with_first(-960)},
             {"v", "normal"},
             {"do", "normal"}},
            masked("causal"), {},
            then({"dq"},
                 [](const Judged& t, auto name, const Call&, std::int64_t i) {
                   return t.get(name, i) + 0 * exp(0 - t.get("lse", i / 64));
                 })),
      shown("ATT-10", "dO read as O is laid out, its axes being swapped", "attention", full,
            "bf16:fp32:bf16", {2, 2, 3, 5, 8}, normal, {}, {},
            reading("do", [](const TensorView& g, const Sizes& s,
                             std::int64_t i) { return g.at(swapped(s, s[4], i)); })),
      shown("ATT-13", "a head of 72: the columns past 64 left from the tile before", "attention",
            full, "bf16:fp32:bf16", {2, 2, 5, 7, 72}, normal, {}, {},
            then({"dq", "dk", "dv"},
                 [](const Judged& t, auto name, const Call&, std::int64_t i) {
                   return t.get(name, i % 72 < 64 ? i : i - 64);
                 })),
      shown("ATT-23", "lse read as if packed, its axes being swapped", "attention", local,
            "bf16:fp32:bf16", {2, 2, 3, 5, 8}, normal, {}, {},
            reading("lse", [](const TensorView& lse, const Sizes& s,
                              std::int64_t i) { return lse.at(swapped(s, 1, i)); })),
  };
}

}  // namespace attention_cases

inline std::vector<PublicCase> attention() {
  using namespace attention_cases;
  std::vector<PublicCase> all = of_masks();
  for (PublicCase& c : of_forward()) all.push_back(std::move(c));
  for (PublicCase& c : of_backward()) all.push_back(std::move(c));
  return all;
}

}  // namespace opbound::cases
