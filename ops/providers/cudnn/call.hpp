// One call of opbound's, as the kernels here ask for it.
#pragma once

#include <string>

#include "ops/providers/plugin_side.hpp"

namespace opbound::with_cudnn {

using namespace plugin_side;

class Call : public plugin_side::Call {
 public:
  using plugin_side::Call::Call;

  /// Unsupported where tensors are empty, or repeat an axis by a stride of 0.
  void require_elements() const;
  /// Unsupported where a tensor is not row after row without gaps.
  void require_packed() const;

  /// All that decides which kernel runs, as text: everything but addresses.
  std::string signature() const;
};

/// cuDNN's kernels load 16 bytes at a time. Unsupported at another address.
void require_aligned(const opbound_tensor& t);

}  // namespace opbound::with_cudnn
