// CUDA's own functions of one number against double-double, and its conversions against their
// definition, on every input.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reference/cuda_functions/conversion.hpp"
#include "reference/cuda_functions/values.hpp"
#include "reference/sweep_device.hpp"

namespace opbound {

/// What a function is to compute.
enum class Formula : std::uint8_t {
  exp,
  exp2,
  exp10,
  expm1,
  log,
  log2,
  log10,
  log1p,
  tanh,
  erf,
  erfc,
  sin,
  cos,
  sqrt,
  rsqrt,
  reciprocal
};

/// What NVIDIA says of a function's error (CUDA C++ Programming Guide 12.8, Mathematical Functions:
/// the tables of single-precision standard and intrinsic functions; __tanf and __powf have no error
/// of their own there): `ulp` + floor(`per_x` |x|) from the correctly rounded result; where low <=
/// x <= high the difference `absolute` instead, if that is not 0; or `relative` to the exact value,
/// if that is not 0. A negative `ulp`: nothing else is said.
struct DocumentedError {
  double ulp = -1, per_x = 0;
  double absolute = 0, low = 0, high = 0;
  double relative = 0;
};

struct CudaFunctionInfo {
  CudaFunction function;
  std::string_view name;
  Formula computes;
  Format format;  ///< of argument and result
  DocumentedError error;
  std::string_view documented;  ///< the same in words
};

std::span<const CudaFunctionInfo> cuda_functions();

/// Largest errors in ulp that are published for XLA on an NVIDIA GPU.
///
/// measured: on every input, from the exact value, on an H100 and a B200, subnormal numbers taken
/// as 0 (JAX's documentation, docs/accuracy.md of jax-ml/jax at 031068b, reviewed 2026-09-18).
/// allowed: by XLA's own tests, from the rounded value, at chosen inputs whose results are normal
/// (xla/codegen/intrinsic/accuracy/accuracy_budget.h of openxla/xla at 11097b5).
struct XlaError {
  std::optional<double> measured, allowed;
};

/// Of the same formula in the same format, whatever XLA computes it with.
XlaError xla_error(Formula formula, const Format& format);

/// Every pattern of the argument's bits, judged by what is documented: a k of that table is a bound
/// of k + 1/2 ulp; where nothing is documented nothing is claimed. A documented error is taken as
/// it is, however large. Throws Unavailable in a build without CUDA.
FirstRung sweep_cuda_function(const CudaFunctionInfo& f, const SweepProgress& progress);

struct CudaConversionInfo {
  CudaConversion conversion;
  std::string_view name;
  conversion::Rule rule;
};

std::span<const CudaConversionInfo> cuda_conversions();

/// Every input of the conversion (conversion::inputs_of), right or wrong; the tally's worst element
/// is the first wrong one, if there is any. Throws Unavailable in a build without CUDA.
FirstRung sweep_cuda_conversion(const CudaConversionInfo& c, const SweepProgress& progress);

}  // namespace opbound
