// One call of opbound's, as the kernels here ask for it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ops/provider.h"

namespace opbound::with_cudnn {

/// cuDNN has no kernel for the call, or opbound no bound for its kernel: a record `skipped`.
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

  bool has(const char* name) const { return opbound_tensor_named(&call_, name) != nullptr; }
  const opbound_tensor& tensor(const char* name) const;

  bool flag(const char* attribute) const;
  std::int64_t whole(const char* attribute) const;
  double number(const char* attribute) const;
  std::string word(const char* attribute) const;

  /// Unsupported where one of these attributes, formats in which a value is held on the way, is not
  /// "as computed".
  void require_as_computed(std::initializer_list<const char*> attributes) const;
  /// Unsupported where tensors are empty, or repeat an axis by a stride of 0.
  void require_elements() const;
  /// Unsupported where a tensor is not row after row without gaps.
  void require_packed() const;

  /// All that decides which kernel runs, as text: everything but addresses.
  std::string signature() const;

 private:
  const opbound_attribute& attribute(const char* name) const;

  const opbound_call& call_;
};

/// "fp32"
std::string name_of(int element);

inline bool is_narrow(int element) { return element == OPBOUND_BF16 || element == OPBOUND_FP16; }

/// cuDNN's kernels load 16 bytes at a time. Unsupported at another address.
void require_aligned(const opbound_tensor& t);

}  // namespace opbound::with_cudnn
