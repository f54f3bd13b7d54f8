// One call of opbound's, as torch's tensors and numbers.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Optional.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ops/provider.h"

namespace opbound::with_torch {

/// This torch has no kernel for the call: a record `skipped` with this reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& why_not) {
  if (!holds) throw Unsupported(why_not);
}

class Call {
 public:
  explicit Call(const opbound_call& call) : call_(call) {}

  const opbound_call& get() const { return call_; }
  bool is_backward() const { return std::string_view(call_.direction) == "backward"; }
  bool is_variant(std::string_view name) const { return name == call_.variant; }

  bool has(const char* name) const { return opbound_tensor_named(&call_, name) != nullptr; }
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

  bool flag(const char* attribute) const;
  std::int64_t whole(const char* attribute) const;
  double number(const char* attribute) const;
  std::string word(const char* attribute) const;

  /// Unsupported where one of these attributes, formats in which a value is held on the way, is not
  /// "as computed".
  void require_as_computed(std::initializer_list<const char*> attributes) const;

 private:
  const opbound_attribute& attribute(const char* name) const;
  void copy(const char* name, const at::Tensor& value) const;

  const opbound_call& call_;
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
