// CUDA's own functions of one number against double-double, on every input.
#pragma once

#include <span>
#include <string_view>

#include "ops/elementary.hpp"
#include "reference/cuda_functions/values.hpp"
#include "reference/sweep_device.hpp"

namespace opbound {

/// What NVIDIA says of a function's error (CUDA C++ Programming Guide 12.8, tables of
/// maximum errors): `ulp` + floor(`per_x` |x|) from the correctly rounded result; where low <= x <=
/// high the difference `absolute` instead, if that is not 0. Negative: nothing is said.
struct DocumentedError {
  double ulp = -1, per_x = 0;
  double absolute = 0, low = 0, high = 0;
};

struct CudaFunctionInfo {
  CudaFunction function;
  std::string_view name;
  Function computes;
  Format format;  ///< of argument and result
  DocumentedError error;
  std::string_view documented;  ///< the same in words
};

std::span<const CudaFunctionInfo> cuda_functions();

/// Every pattern of the argument's bits, judged by what is documented: a k of that table is a bound
/// of k + 1/2 ulp; where nothing is documented it is larger than any number. Nothing is vacuous by
/// its size: a documented error is taken as it is. Throws Unavailable in a build without CUDA.
FirstRung sweep_cuda_function(const CudaFunctionInfo& f, const SweepProgress& progress);

}  // namespace opbound
