#include "ops/providers/cublas/matrix.hpp"

#include <algorithm>

#include "ops/providers/cublas/check.hpp"

namespace opbound::with_cublas {
namespace {

/// One axis of a tensor.
struct Axis {
  std::int64_t size, stride;

  Axis(const opbound_tensor& t, int axis) : size(t.size[axis]), stride(t.stride[axis]) {}
  /// An axis of one element has any stride.
  bool is_dense() const { return size <= 1 || stride == 1; }
};

/// Do `outer`'s steps lead over all of `inner`?
bool steps_over(const Axis& outer, const Axis& inner) {
  return outer.size <= 1 || outer.stride >= inner.size;
}

std::int64_t leading_of(const Axis& outer, const Axis& inner) {
  const std::int64_t least = std::max<std::int64_t>(inner.size, 1);
  return outer.size <= 1 ? least : outer.stride;
}

[[noreturn]] void refuse(const opbound_tensor& t, const char* wanted) {
  throw Unsupported("it takes no " + std::string(t.name) + " with strides " +
                    std::to_string(t.stride[0]) + " and " + std::to_string(t.stride[1]) + ": " +
                    wanted);
}

}  // namespace

cudaDataType_t type_of(int element) {
  switch (element) {
    case OPBOUND_FP64:
      return CUDA_R_64F;
    case OPBOUND_FP32:
    case OPBOUND_TF32:
      return CUDA_R_32F;
    case OPBOUND_BF16:
      return CUDA_R_16BF;
    case OPBOUND_FP16:
      return CUDA_R_16F;
    case OPBOUND_E4M3:
      return CUDA_R_8F_E4M3;
    case OPBOUND_E5M2:
      return CUDA_R_8F_E5M2;
    default:
      throw Unsupported("it has no format number " + std::to_string(element));
  }
}

std::string name_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return "fp64";
    case CUDA_R_32F:
      return "fp32";
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_16F:
      return "fp16";
    case CUDA_R_8F_E4M3:
      return "e4m3";
    case CUDA_R_8F_E5M2:
      return "e5m2";
    default:
      return "type " + std::to_string(static_cast<int>(type));
  }
}

std::int64_t bytes_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    default:
      return 1;
  }
}

Matrix factor(const opbound_tensor& t, int row_axis, int column_axis) {
  const Axis row(t, row_axis), column(t, column_axis);
  Matrix m{type_of(t.element), row.size, column.size, 0, false, t.data};
  if (row.is_dense() && steps_over(column, row)) {
    m.leading = leading_of(column, row);
  } else if (column.is_dense() && steps_over(row, column)) {
    m.leading = leading_of(row, column);
    m.is_transposed = true;
  } else {
    refuse(t, "rows or columns have to lie one after the other and not overlap");
  }
  return m;
}

Matrix by_rows(const opbound_tensor& t, bool may_repeat) {
  const Axis row(t, 1), column(t, 0);
  const bool repeats = may_repeat && column.size > 1 && column.stride == 0;
  if (!row.is_dense() || !(repeats || steps_over(column, row)))
    refuse(t, "its rows have to lie one after the other");
  const std::int64_t leading = repeats ? 0 : leading_of(column, row);
  return {type_of(t.element), row.size, column.size, leading, false, t.data};
}

bool lies_by_columns(const opbound_tensor& t) {
  const Axis rows(t, 0), columns(t, 1);
  return !columns.is_dense() && rows.is_dense() && steps_over(columns, rows);
}

Matrix by_columns(const opbound_tensor& t) {
  const Axis row(t, 0), column(t, 1);
  return {type_of(t.element), row.size, column.size, leading_of(column, row), false, t.data};
}

void require_packed(const opbound_tensor& t) {
  require(t.size[0] <= 1 || t.stride[0] == 1,
          "it takes no " + std::string(t.name) + " with stride " + std::to_string(t.stride[0]));
}

}  // namespace opbound::with_cublas
