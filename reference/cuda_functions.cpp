#include "reference/cuda_functions.hpp"

#include <array>

#include "ops/provider.hpp"

namespace opbound {
namespace {

using C = CudaFunction;
using F = Formula;

constexpr DocumentedError unsaid{};
constexpr double pi_as_double = 0x1.921fb54442d18p+1;

/// Between 1/2 and 2 an absolute error, elsewhere one in ulp.
constexpr DocumentedError near_one(double ulp, double absolute) {
  return {ulp, 0, absolute, 0.5, 2};
}
/// Between -pi and pi an absolute error; "larger otherwise" says nothing.
constexpr DocumentedError around_zero(double absolute) {
  return {-1, 0, absolute, -pi_as_double, pi_as_double};
}

constexpr std::array fp32_functions{
    CudaFunctionInfo{C::expf, "expf", F::exp, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::fast_expf, "__expf", F::exp, fp32, {2, 1.173}, "2 + floor(1.173 |x|) ulp"},
    CudaFunctionInfo{C::exp2f, "exp2f", F::exp2, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::exp10f, "exp10f", F::exp10, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{
        C::fast_exp10f, "__exp10f", F::exp10, fp32, {2, 2.97}, "2 + floor(2.97 |x|) ulp"},
    CudaFunctionInfo{C::expm1f, "expm1f", F::expm1, fp32, {1}, "1 ulp"},
    CudaFunctionInfo{C::logf, "logf", F::log, fp32, {1}, "1 ulp"},
    CudaFunctionInfo{C::fast_logf, "__logf", F::log, fp32, near_one(3, 3.5888e-7),
                     "2^-21.41 in [0.5, 2], 3 ulp elsewhere"},
    CudaFunctionInfo{C::log2f, "log2f", F::log2, fp32, {1}, "1 ulp"},
    CudaFunctionInfo{C::fast_log2f, "__log2f", F::log2, fp32, near_one(2, 0x1p-22),
                     "2^-22 in [0.5, 2], 2 ulp elsewhere"},
    CudaFunctionInfo{C::log10f, "log10f", F::log10, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::fast_log10f, "__log10f", F::log10, fp32, near_one(3, 0x1p-24),
                     "2^-24 in [0.5, 2], 3 ulp elsewhere"},
    CudaFunctionInfo{C::log1pf, "log1pf", F::log1p, fp32, {1}, "1 ulp"},
    CudaFunctionInfo{C::tanhf, "tanhf", F::tanh, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::fast_tanhf,
                     "__tanhf",
                     F::tanh,
                     fp32,
                     {-1, 0, 0, 0, 0, 0x1p-11},
                     "2^-11 of the exact value"},
    CudaFunctionInfo{C::erff, "erff", F::erf, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::erfcf, "erfcf", F::erfc, fp32, {4}, "4 ulp"},
    CudaFunctionInfo{C::sinf, "sinf", F::sin, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::fast_sinf, "__sinf", F::sin, fp32, around_zero(3.5888e-7),
                     "2^-21.41 in [-pi, pi], larger elsewhere"},
    CudaFunctionInfo{C::cosf, "cosf", F::cos, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::fast_cosf, "__cosf", F::cos, fp32, around_zero(4.18e-7),
                     "2^-21.19 in [-pi, pi], larger elsewhere"},
    CudaFunctionInfo{C::sqrtf, "sqrtf", F::sqrt, fp32, {0}, "0 ulp"},
    CudaFunctionInfo{C::rsqrtf, "rsqrtf", F::rsqrt, fp32, {2}, "2 ulp"},
    CudaFunctionInfo{C::rsqrtf_rn, "__frsqrt_rn", F::rsqrt, fp32, {0}, "0 ulp"},
    CudaFunctionInfo{C::reciprocalf, "1/x", F::reciprocal, fp32, {0}, "0 ulp"}};

/// Of fp16 and of bf16; their documentation has no errors.
struct NarrowFunction {
  CudaFunction function;
  std::string_view name;
  Formula computes;
};

constexpr std::array narrow_functions{NarrowFunction{C::hexp, "hexp", F::exp},
                                      NarrowFunction{C::hexp2, "hexp2", F::exp2},
                                      NarrowFunction{C::hexp10, "hexp10", F::exp10},
                                      NarrowFunction{C::hlog, "hlog", F::log},
                                      NarrowFunction{C::hlog2, "hlog2", F::log2},
                                      NarrowFunction{C::hlog10, "hlog10", F::log10},
                                      NarrowFunction{C::htanh, "htanh", F::tanh},
                                      NarrowFunction{C::htanh_approx, "htanh_approx", F::tanh},
                                      NarrowFunction{C::hsin, "hsin", F::sin},
                                      NarrowFunction{C::hcos, "hcos", F::cos},
                                      NarrowFunction{C::hsqrt, "hsqrt", F::sqrt},
                                      NarrowFunction{C::hrsqrt, "hrsqrt", F::rsqrt},
                                      NarrowFunction{C::hrcp, "hrcp", F::reciprocal},
                                      NarrowFunction{C::h2exp, "h2exp", F::exp},
                                      NarrowFunction{C::h2exp2, "h2exp2", F::exp2},
                                      NarrowFunction{C::h2exp10, "h2exp10", F::exp10},
                                      NarrowFunction{C::h2log, "h2log", F::log},
                                      NarrowFunction{C::h2log2, "h2log2", F::log2},
                                      NarrowFunction{C::h2log10, "h2log10", F::log10},
                                      NarrowFunction{C::h2tanh, "h2tanh", F::tanh},
                                      NarrowFunction{C::h2tanh_approx, "h2tanh_approx", F::tanh},
                                      NarrowFunction{C::h2sin, "h2sin", F::sin},
                                      NarrowFunction{C::h2cos, "h2cos", F::cos},
                                      NarrowFunction{C::h2sqrt, "h2sqrt", F::sqrt},
                                      NarrowFunction{C::h2rsqrt, "h2rsqrt", F::rsqrt},
                                      NarrowFunction{C::h2rcp, "h2rcp", F::reciprocal}};

constexpr auto all_functions() {
  constexpr std::size_t wide = fp32_functions.size(), narrow = narrow_functions.size();
  std::array<CudaFunctionInfo, wide + 2 * narrow> table{};
  for (std::size_t i = 0; i < wide; ++i) table[i] = fp32_functions[i];
  for (std::size_t i = 0; i < narrow; ++i) {
    const NarrowFunction& f = narrow_functions[i];
    table[wide + 2 * i] = {f.function, f.name, f.computes, fp16, unsaid, ""};
    table[wide + 2 * i + 1] = {f.function, f.name, f.computes, bf16, unsaid, ""};
  }
  return table;
}

struct Published {
  Formula formula;
  Kind format;
  double measured;
  std::optional<double> allowed;
};

constexpr std::array published{
    Published{F::exp, Kind::fp32, 2, 7},          Published{F::exp2, Kind::fp32, 69, {}},
    Published{F::expm1, Kind::fp32, 1.5, {}},     Published{F::log, Kind::fp32, 1, 1},
    Published{F::log1p, Kind::fp32, 1, 1},        Published{F::log2, Kind::fp32, 2, {}},
    Published{F::log10, Kind::fp32, 2.5, {}},     Published{F::tanh, Kind::fp32, 5.5, 3},
    Published{F::erf, Kind::fp32, 6.5, 2},        Published{F::erfc, Kind::fp32, 66.5, {}},
    Published{F::sin, Kind::fp32, 1.5, {}},       Published{F::cos, Kind::fp32, 2, {}},
    Published{F::sqrt, Kind::fp32, 1, 0},         Published{F::rsqrt, Kind::fp32, 2, 1},
    Published{F::reciprocal, Kind::fp32, 1, {}},  Published{F::exp, Kind::fp16, 1, {}},
    Published{F::exp2, Kind::fp16, 14, {}},       Published{F::log, Kind::fp16, 1, {}},
    Published{F::log2, Kind::fp16, 2, {}},        Published{F::log10, Kind::fp16, 1.5, {}},
    Published{F::tanh, Kind::fp16, 0.5, {}},      Published{F::sin, Kind::fp16, 1, {}},
    Published{F::cos, Kind::fp16, 1, {}},         Published{F::sqrt, Kind::fp16, 0.5, {}},
    Published{F::rsqrt, Kind::fp16, 0.5, {}},     Published{F::reciprocal, Kind::fp16, 0.5, {}},
    Published{F::exp, Kind::bf16, 1, {}},         Published{F::exp2, Kind::bf16, 101, {}},
    Published{F::log, Kind::bf16, 0.5, {}},       Published{F::log2, Kind::bf16, 2, {}},
    Published{F::log10, Kind::bf16, 2, {}},       Published{F::tanh, Kind::bf16, 0.5, {}},
    Published{F::sin, Kind::bf16, 0.5, {}},       Published{F::cos, Kind::bf16, 0.5, {}},
    Published{F::sqrt, Kind::bf16, 0.5, {}},      Published{F::rsqrt, Kind::bf16, 0.5, {}},
    Published{F::reciprocal, Kind::bf16, 0.5, {}}};

}  // namespace

std::span<const CudaFunctionInfo> cuda_functions() {
  static constexpr auto table = all_functions();
  return table;
}

XlaError xla_error(Formula formula, const Format& format) {
  for (const Published& p : published)
    if (p.formula == formula && p.format == format.kind) return {p.measured, p.allowed};
  return {};
}

#ifndef OPBOUND_WITH_CUDA
FirstRung sweep_cuda_function(const CudaFunctionInfo&, const SweepProgress&) {
  throw Unavailable("this build has no CUDA");
}
FirstRung sweep_cuda_conversion(const CudaConversionInfo&, const SweepProgress&) {
  throw Unavailable("this build has no CUDA");
}
#endif

}  // namespace opbound
