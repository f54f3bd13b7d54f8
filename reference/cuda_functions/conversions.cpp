// The conversions that CUDA has, and what each is documented to be.
#include <array>

#include "reference/cuda_functions.hpp"

namespace opbound {
namespace {

using C = CudaConversion;
using R = conversion::Rounding;

constexpr std::array between_wide{
    CudaConversionInfo{C::float2half, "__float2half", {fp32, fp16}},
    CudaConversionInfo{C::float2half_rn, "__float2half_rn", {fp32, fp16}},
    CudaConversionInfo{C::float2half_rz, "__float2half_rz", {fp32, fp16, R::toward_zero}},
    CudaConversionInfo{C::float2half_ru, "__float2half_ru", {fp32, fp16, R::upward}},
    CudaConversionInfo{C::float2half_rd, "__float2half_rd", {fp32, fp16, R::downward}},
    CudaConversionInfo{C::floats2half2_rn, "__floats2half2_rn", {fp32, fp16}},
    CudaConversionInfo{C::float2bfloat16, "__float2bfloat16", {fp32, bf16}},
    CudaConversionInfo{C::float2bfloat16_rn, "__float2bfloat16_rn", {fp32, bf16}},
    CudaConversionInfo{C::float2bfloat16_rz, "__float2bfloat16_rz", {fp32, bf16, R::toward_zero}},
    CudaConversionInfo{C::float2bfloat16_ru, "__float2bfloat16_ru", {fp32, bf16, R::upward}},
    CudaConversionInfo{C::float2bfloat16_rd, "__float2bfloat16_rd", {fp32, bf16, R::downward}},
    CudaConversionInfo{C::floats2bfloat162_rn, "__floats2bfloat162_rn", {fp32, bf16}},
    CudaConversionInfo{C::double2float_rn, "__double2float_rn", {fp64, fp32}},
    CudaConversionInfo{C::double2float_rz, "__double2float_rz", {fp64, fp32, R::toward_zero}},
    CudaConversionInfo{C::double2float_ru, "__double2float_ru", {fp64, fp32, R::upward}},
    CudaConversionInfo{C::double2float_rd, "__double2float_rd", {fp64, fp32, R::downward}},
    CudaConversionInfo{C::double2half, "__double2half", {fp64, fp16}},
    CudaConversionInfo{C::double2bfloat16, "__double2bfloat16", {fp64, bf16}},
    CudaConversionInfo{C::half2float, "__half2float", {fp16, fp32}},
    CudaConversionInfo{C::bfloat162float, "__bfloat162float", {bf16, fp32}},
    CudaConversionInfo{C::bfloat16_of_half, "__nv_bfloat16(__half)", {fp16, bf16}},
    CudaConversionInfo{C::half_of_bfloat16, "__half(__nv_bfloat16)", {bf16, fp16}},
    CudaConversionInfo{C::fp8_to_half, "__nv_cvt_fp8_to_halfraw", {e4m3, fp16}},
    CudaConversionInfo{C::fp8_to_half, "__nv_cvt_fp8_to_halfraw", {e5m2, fp16}}};

struct ToFp8 {
  CudaConversion conversion;
  std::string_view name;
  Format from;
};

constexpr std::array to_fp8{ToFp8{C::float_to_fp8, "__nv_cvt_float_to_fp8", fp32},
                            ToFp8{C::float2_to_fp8x2, "__nv_cvt_float2_to_fp8x2", fp32},
                            ToFp8{C::double_to_fp8, "__nv_cvt_double_to_fp8", fp64},
                            ToFp8{C::half_to_fp8, "__nv_cvt_halfraw_to_fp8", fp16},
                            ToFp8{C::bfloat16_to_fp8, "__nv_cvt_bfloat16raw_to_fp8", bf16}};

constexpr std::array fp8_formats{e4m3, e4m3.saturating(), e5m2, e5m2.saturating()};

constexpr auto all_conversions() {
  std::array<CudaConversionInfo, between_wide.size() + to_fp8.size() * fp8_formats.size()> table{};
  std::size_t n = 0;
  for (const CudaConversionInfo& c : between_wide) table[n++] = c;
  for (const ToFp8& c : to_fp8)
    for (const Format& f : fp8_formats) table[n++] = {c.conversion, c.name, {c.from, f}};
  return table;
}

}  // namespace

std::span<const CudaConversionInfo> cuda_conversions() {
  static constexpr auto table = all_conversions();
  return table;
}

}  // namespace opbound
