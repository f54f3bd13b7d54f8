// CUDA's functions and conversions of one number, as a user's program calls them: compiled without
// the flag that keeps this project's own kernels from contracting operations.
#pragma once

#include <cstdint>

#include "reference/cuda_functions/conversion.hpp"

namespace opbound {

/// Those from hexp on are of 16-bit numbers, fp16 or bf16. h2exp and so on are of a pair of them,
/// asked with one number twice: where its two results differ in bits, NaN is given in their place,
/// which passes nowhere that a number is right.
enum class CudaFunction : std::uint8_t {
  expf,
  fast_expf,
  exp2f,
  exp10f,
  fast_exp10f,
  expm1f,
  logf,
  fast_logf,
  log2f,
  fast_log2f,
  log10f,
  fast_log10f,
  log1pf,
  tanhf,
  fast_tanhf,
  erff,
  erfcf,
  sinf,
  fast_sinf,
  cosf,
  fast_cosf,
  sqrtf,
  rsqrtf,
  rsqrtf_rn,
  reciprocalf,
  hexp,
  hexp2,
  hexp10,
  hlog,
  hlog2,
  hlog10,
  htanh,
  htanh_approx,
  hsin,
  hcos,
  hsqrt,
  hrsqrt,
  hrcp,
  h2exp,
  h2exp2,
  h2exp10,
  h2log,
  h2log2,
  h2log10,
  h2tanh,
  h2tanh_approx,
  h2sin,
  h2cos,
  h2sqrt,
  h2rsqrt,
  h2rcp
};

/// What the argument's bits are of.
enum class CudaArgument : std::uint8_t { fp32, fp16, bf16 };

/// Starts to[i] = the function of the number whose bits are first + i, for `count` of them. `to` is
/// in device memory; 16-bit functions' results are widened, exactly.
void start_cuda_function(CudaFunction f, CudaArgument argument, std::uint64_t first,
                         std::int64_t count, float* to);

/// To and from fp8 there is one for both of its formats, with and without saturation. Those of
/// pairs are asked as functions of pairs are.
enum class CudaConversion : std::uint8_t {
  float2half,
  float2half_rn,
  float2half_rz,
  float2half_ru,
  float2half_rd,
  floats2half2_rn,
  float2bfloat16,
  float2bfloat16_rn,
  float2bfloat16_rz,
  float2bfloat16_ru,
  float2bfloat16_rd,
  floats2bfloat162_rn,
  double2float_rn,
  double2float_rz,
  double2float_ru,
  double2float_rd,
  double2half,
  double2bfloat16,
  half2float,
  bfloat162float,
  bfloat16_of_half,
  half_of_bfloat16,
  float_to_fp8,
  float2_to_fp8x2,
  double_to_fp8,
  half_to_fp8,
  bfloat16_to_fp8,
  fp8_to_half
};

/// Starts to[i] = the bits that the conversion gives for conversion::input_of(rule, first + i), for
/// `count` of them; `to` is in device memory.
void start_cuda_conversion(CudaConversion c, const conversion::Rule& rule, std::int64_t first,
                           std::int64_t count, std::uint32_t* to);

}  // namespace opbound
