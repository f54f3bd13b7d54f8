// Public cases of matmul.
#pragma once

#include <cmath>

#include "ops/matmul.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound::cases {
namespace matmul_cases {

/// d = the sum over `splits` equal parts of k, each added by `inside` and stored by `stored`.
template <class Inside, class Stored>
FaultyKernel product(std::int64_t splits, Inside inside, Stored stored, std::int64_t dropped = 0) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    const std::int64_t m = call.sizes[0], n = call.sizes[1], k = call.sizes[2];
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float total = 0;
        for (std::int64_t part = 0; part < splits; ++part) {
          float s = 0;
          for (std::int64_t l = part * k / splits; l < (part + 1) * k / splits - dropped; ++l)
            s = inside(s + t.get("a", i * k + l) * t.get("b", l * n + j));
          total += stored(s);
        }
        t.put("d", i * n + j, total);
      }
  };
}

/// Cut to 14 significant bits, as an accumulator of that width would.
inline float in_14_bits(float x) {
  if (x == 0) return x;
  const int exponent = std::ilogb(x) - 13;
  return std::ldexp(std::trunc(std::ldexp(x, -exponent)), exponent);
}

}  // namespace matmul_cases

inline std::vector<PublicCase> matmul() {
  using namespace matmul_cases;
  constexpr auto forth = Direction::forward;
  const auto splits = [](std::int64_t n) { return Attributes{{"splits", n}}; };
  const std::vector<CaseInput> uniform{{"a", "uniform"}, {"b", "uniform"}},
      normal{{"a", "normal"}, {"b", "normal"}},
      whole{{"a", "", {3, -2, 1, 2, -1, 0, 3}}, {"b", "", {2, -1, 3, 0, -2, 1, 3, 1, -1, 2, -2}}};
  return {
      shown("GEMM-01", "two partial sums stored in bf16: 256.75 and -256.25 lose their difference",
            "matmul", forth, "bf16:fp32:bf16", {1, 1, 4},
            {{"a", "", {1}}, {"b", "", {256, 0.75, -256, -0.25}}}, splits(2), {{"d", {"=0.5"}}},
            product(2, as_is, in_bf16), "split_k"),
      shown("GEMM-02", "split-K with partial sums in bf16, as an algorithm choice may bring it",
            "matmul", forth, "bf16:fp32:bf16", {8, 8, 1024}, uniform, splits(8), {},
            product(8, as_is, in_bf16), "split_k"),
      shown("GEMM-05",
            "a row whose sums are kept in fp16, as a device with half accumulators has it",
            "matmul", forth, "fp16:fp32:fp16", {2, 8, 2048}, normal, {}, {},
            product(1, in_fp16, as_is)),
      shown("GEMM-07", "fp8 products added in 14 bits where fp32 is declared", "matmul", forth,
            "e4m3:fp32:fp32", {2, 2, 4096}, normal, {}, {}, product(1, in_14_bits, as_is)),
      shown("GEMM-08", "whole numbers, whose sums are exact: the last tile of k left out", "matmul",
            forth, "fp16:fp32:fp32", {4, 4, 8192}, whole, {}, {}, product(1, as_is, as_is, 64)),
  };
}

}  // namespace opbound::cases
