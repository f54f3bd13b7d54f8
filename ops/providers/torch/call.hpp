// One call of opbound's, as torch's tensors and numbers.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Optional.h>

#include <string>

#include "ops/providers/plugin_side.hpp"

namespace opbound::with_torch {

using namespace plugin_side;

class Call : public plugin_side::Call {
 public:
  using plugin_side::Call::Call;

  /// A view of opbound's memory: kernels write into copies. Undefined for a tensor that the call
  /// does not have, which is how torch says "none".
  at::Tensor tensor(const char* name) const;
  /// The format that the output or input of this name has.
  at::ScalarType format_of(const char* name) const;

  /// Copies a result, which has to have the output's shape and format: another format would be one
  /// more rounding than torch does, or one less. Outputs that the call does not have are left out.
  void give(const char* name, const at::Tensor& value) const;
  /// The same for a statistic that torch keeps in a narrower format than the op does.
  void give_widened(const char* name, const at::Tensor& value) const;

 private:
  void copy(const char* name, const at::Tensor& value) const;
};

/// The tensor, or nothing where it is undefined.
inline c10::optional<at::Tensor> maybe(const at::Tensor& t) {
  return t.defined() ? c10::optional<at::Tensor>(t) : c10::nullopt;
}

/// torch's name for opbound's format; Unsupported where this torch has none.
at::ScalarType scalar_type_of(int element);

/// "fp32"
std::string name_of(at::ScalarType type);

}  // namespace opbound::with_torch
