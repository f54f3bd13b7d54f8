#include "ops/providers/cublas/product.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace opbound::with_cublas {
namespace {

/// One row of the tables that the documentation of cublasLtMatmul has.
struct Formats {
  cublasComputeType_t compute;
  cudaDataType_t a, b, c, d;
};

constexpr cudaDataType_t r64 = CUDA_R_64F, r32 = CUDA_R_32F, bf = CUDA_R_16BF, half = CUDA_R_16F,
                         e4 = CUDA_R_8F_E4M3, e5 = CUDA_R_8F_E5M2;

constexpr Formats documented[] = {
    {CUBLAS_COMPUTE_64F, r64, r64, r64, r64},
    {CUBLAS_COMPUTE_32F, r32, r32, r32, r32},
    {CUBLAS_COMPUTE_32F_FAST_TF32, r32, r32, r32, r32},
    {CUBLAS_COMPUTE_16F, half, half, half, half},
    {CUBLAS_COMPUTE_32F, bf, bf, bf, bf},
    {CUBLAS_COMPUTE_32F, bf, bf, r32, r32},
    {CUBLAS_COMPUTE_32F, half, half, half, half},
    {CUBLAS_COMPUTE_32F, half, half, r32, r32},
};

/// Two factors in fp8, not both e5m2; c in 16 bits where d is in fp8, else as d.
bool is_documented_fp8(const Product& p) {
  if (p.compute != CUBLAS_COMPUTE_32F || !is_fp8(p.a.type) || !is_fp8(p.b.type)) return false;
  if (p.a.type == e5 && p.b.type == e5) return false;
  if (is_fp8(p.d.type)) {
    const bool has_e5 = p.a.type == e5 || p.b.type == e5;
    return (p.c.type == bf || p.c.type == half) && (p.d.type == e4 || has_e5);
  }
  return p.c.type == p.d.type && (p.d.type == bf || p.d.type == half || p.d.type == r32);
}

std::string formats_text(const Product& p) {
  std::string text = name_of(p.b.type) + " and " + name_of(p.a.type);
  if (p.beta != 0) text += ", with c in " + name_of(p.c.type) + ",";
  return text + " into " + name_of(p.d.type);
}

/// "TN", as cuBLAS names it.
std::string layout_text(const Product& p) {
  return std::string(p.a.is_transposed ? "T" : "N") + (p.b.is_transposed ? "T" : "N");
}

std::string no_algorithm_text(const Product& p, cublasStatus_t status) {
  std::string text = "its heuristic has no algorithm for " + formats_text(p) + ", " +
                     layout_text(p) + ", " + std::to_string(p.d.rows) + " by " +
                     std::to_string(p.d.columns) + " by " + std::to_string(p.a.columns);
  if (p.only_units) text += ", in matrix units";
  if (status != CUBLAS_STATUS_SUCCESS) text += " (" + text_of(status) + ")";
  if (is_fp8(p.a.type)) text += "; fp8 is TN, and sizes and addresses multiples of 16 bytes";
  return text;
}

/// Of an address, a power of two up to 256.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

cublasOperation_t operation_of(const Matrix& m) {
  return m.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

#if CUBLAS_VERSION >= 120900
void set_scales(const Operation& operation, const Product& p) {
  constexpr std::int32_t vector = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, vector);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, vector);
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_a);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_b);
}
#else
void set_scales(const Operation&, const Product&) {
  throw Unsupported("it has scales of rows and columns since 12.9");
}
#endif

}  // namespace

void require_formats(const Product& p) {
  const bool is_listed =
      std::any_of(std::begin(documented), std::end(documented), [&](const Formats& f) {
        return f.compute == p.compute && f.a == p.a.type && f.b == p.b.type && f.c == p.c.type &&
               f.d == p.d.type;
      });
  require(is_listed || is_documented_fp8(p), "it has no product of " + formats_text(p));
}

ChosenProduct::ChosenProduct(const Product& p, const Settings& settings,
                             std::uint64_t most_workspace)
    : product_(p), a_(layout_of(p.a)), b_(layout_of(p.b)), c_(layout_of(p.c)), d_(layout_of(p.d)) {
  describe();
  choose(settings, most_workspace);
}

void ChosenProduct::describe() {
  const Product& p = product_;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, p.compute, p.scale), "cublasLtMatmulDescCreate");
  operation_.reset(made);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(p.a));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(p.b));
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  if (p.bias != nullptr) set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.scale_a != nullptr) set_scales(operation_, p);
  if (p.fast) set(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
}

/// Parts of a sum may be added in fp32 only, as the bounds assume, or as the user asks for in the
/// output's format too: in the output itself or beside it.
Preference ChosenProduct::preference(const Settings& settings, std::uint64_t most_workspace) const {
  const Product& p = product_;
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  Preference all(made);
  const std::uint32_t reductions =
      settings.reduced ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(all, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(all, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  set(all, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.a.data));
  set(all, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.b.data));
  set(all, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c.data));
  set(all, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.d.data));
  if (p.only_units) {
    const std::uint64_t units = ~std::uint64_t{CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA};
    set(all, CUBLASLT_MATMUL_PREF_IMPL_MASK, units);
  }
  return all;
}

void ChosenProduct::choose(const Settings& settings, std::uint64_t most_workspace) {
  std::array<cublasLtMatmulHeuristicResult_t, most_candidates> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle(), operation_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
      preference(settings, most_workspace).get(), settings.candidate + 1, found.data(), &count);
  if (!is_refusal(status)) check(status, "cublasLtMatmulAlgoGetHeuristic");
  const auto* end = std::remove_if(found.data(), found.data() + count,
                                   [](const auto& f) { return f.state != CUBLAS_STATUS_SUCCESS; });
  const auto usable = end - found.data();
  require(usable > 0, no_algorithm_text(product_, status));
  require(usable > settings.candidate, "its heuristic has no candidate " +
                                           std::to_string(settings.candidate) + ", only " +
                                           std::to_string(usable));
  const auto* chosen = found.data() + settings.candidate;
  algorithm_ = chosen->algo;
  for (const auto* f = found.data(); f <= chosen; ++f)
    workspace_bytes_ = std::max(workspace_bytes_, f->workspaceSize);
}

void ChosenProduct::launch(void* workspace, std::size_t bytes, cudaStream_t stream) const {
  const Product& p = product_;
  const Scalar alpha(p.scale, p.alpha), beta(p.scale, p.beta);
  check(cublasLtMatmul(handle(), operation_.get(), alpha.address(), p.a.data, a_.get(), p.b.data,
                       b_.get(), beta.address(), p.c.data, c_.get(), p.d.data, d_.get(),
                       &algorithm_, workspace, bytes, stream),
        "cublasLtMatmul");
}

}  // namespace opbound::with_cublas
