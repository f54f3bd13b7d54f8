#include "reference/cuda_functions.hpp"

#include <array>

#include "ops/provider.hpp"

namespace opbound {

std::span<const CudaFunctionInfo> cuda_functions() {
  using C = CudaFunction;
  using F = Function;
  static constexpr DocumentedError unsaid{};
  static constexpr std::array table{
      CudaFunctionInfo{C::expf, "expf", F::exp, fp32, {2}, "2 ulp"},
      CudaFunctionInfo{
          C::fast_expf, "__expf", F::exp, fp32, {2, 1.173}, "2 + floor(1.173 |x|) ulp"},
      CudaFunctionInfo{C::exp2f, "exp2f", F::exp2, fp32, {2}, "2 ulp"},
      CudaFunctionInfo{C::expm1f, "expm1f", F::expm1, fp32, {1}, "1 ulp"},
      CudaFunctionInfo{C::logf, "logf", F::log, fp32, {1}, "1 ulp"},
      CudaFunctionInfo{C::fast_logf,
                       "__logf",
                       F::log,
                       fp32,
                       {3, 0, 3.5888e-7, 0.5, 2},
                       "2^-21.41 in [0.5, 2], 3 ulp elsewhere"},
      CudaFunctionInfo{C::log1pf, "log1pf", F::log1p, fp32, {1}, "1 ulp"},
      CudaFunctionInfo{C::tanhf, "tanhf", F::tanh, fp32, {2}, "2 ulp"},
      CudaFunctionInfo{C::fast_tanhf, "__tanhf", F::tanh, fp32, unsaid, ""},
      CudaFunctionInfo{C::erff, "erff", F::erf, fp32, {2}, "2 ulp"},
      CudaFunctionInfo{C::erfcf, "erfcf", F::erfc, fp32, {4}, "4 ulp"},
      CudaFunctionInfo{C::rsqrtf, "rsqrtf", F::rsqrt, fp32, {2}, "2 ulp"},
      CudaFunctionInfo{C::hexp, "hexp", F::exp, fp16, unsaid, ""},
      CudaFunctionInfo{C::hexp2, "hexp2", F::exp2, fp16, unsaid, ""},
      CudaFunctionInfo{C::hlog, "hlog", F::log, fp16, unsaid, ""},
      CudaFunctionInfo{C::htanh, "htanh", F::tanh, fp16, unsaid, ""},
      CudaFunctionInfo{C::hrsqrt, "hrsqrt", F::rsqrt, fp16, unsaid, ""},
      CudaFunctionInfo{C::bf16_hexp, "hexp", F::exp, bf16, unsaid, ""},
      CudaFunctionInfo{C::bf16_hexp2, "hexp2", F::exp2, bf16, unsaid, ""},
      CudaFunctionInfo{C::bf16_hlog, "hlog", F::log, bf16, unsaid, ""},
      CudaFunctionInfo{C::bf16_htanh, "htanh", F::tanh, bf16, unsaid, ""},
      CudaFunctionInfo{C::bf16_hrsqrt, "hrsqrt", F::rsqrt, bf16, unsaid, ""}};
  return table;
}

#ifndef OPBOUND_WITH_CUDA
FirstRung sweep_cuda_function(const CudaFunctionInfo&, const SweepProgress&) {
  throw Unavailable("this build has no CUDA");
}
#endif

}  // namespace opbound
