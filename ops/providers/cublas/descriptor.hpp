// cuBLASLt's objects, which destroy themselves, and their attributes.
#pragma once

#include <cublasLt.h>

#include <cstring>
#include <memory>

#include "ops/providers/cublas/check.hpp"
#include "ops/providers/cublas/matrix.hpp"

namespace opbound::with_cublas {

/// What a destructor meets cannot be told to anybody, and nothing is lost with it.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>(destroy(object));
  }
};

using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutDestroy>>;
using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<cublasLtMatmulPreferenceDestroy>>;
using Transform = std::unique_ptr<cublasLtMatrixTransformDescOpaque_t,
                                  Destroy<cublasLtMatrixTransformDescDestroy>>;

/// As it is stored, before op().
inline Layout layout_of(const Matrix& m) {
  cublasLtMatrixLayout_t layout = nullptr;
  const auto rows = static_cast<std::uint64_t>(m.is_transposed ? m.columns : m.rows);
  const auto columns = static_cast<std::uint64_t>(m.is_transposed ? m.rows : m.columns);
  check(cublasLtMatrixLayoutCreate(&layout, m.type, rows, columns, m.leading),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

/// A factor in the format in which cuBLAS wants alpha and beta.
class Scalar {
 public:
  Scalar(cudaDataType_t type, double value);
  const void* address() const { return bytes_; }

 private:
  template <class T>
  void store(T value) {
    std::memcpy(bytes_, &value, sizeof value);
  }

  alignas(8) unsigned char bytes_[8] = {};
};

/// The handle of this process, made when the first call needs it.
cublasLtHandle_t handle();

}  // namespace opbound::with_cublas
