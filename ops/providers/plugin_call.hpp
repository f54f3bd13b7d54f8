// A request as the C structs of ops/provider.h, for a plug-in to look at.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/provider.h"
#include "ops/providers/plugin_request.hpp"

namespace opbound::detail {

class PluginCall {
 public:
  /// Tensors lie at `base` plus their offsets; null: they have no data.
  PluginCall(const Request& request, std::byte* base);
  /// Tensors lie where the pass's views say, and the workspace, which is as large as the request
  /// says, there.
  PluginCall(const Request& request, std::span<const TensorView> views, void* workspace);
  ~PluginCall() = default;
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

  /// Where the plug-in computes.
  void set_device(int kind, int index, void* stream);

  const opbound_call* get() const { return &call_; }

  /// What the plug-in wrote into its description, in words; empty if it left it alone. Asked after
  /// `seal`, which takes the copy that this compares with.
  void seal();
  std::string tampering() const;

 private:
  const char* text(std::string_view t) { return texts_.emplace_back(t).c_str(); }
  using Address = std::function<void*(const SharedTensor&)>;
  PluginCall(const Request& request, const Address& address, void* workspace);
  void add_attributes(const Request& request);
  void add_tensors(const Request& request, const Address& address);

  std::deque<std::string> texts_;  // which does not move them
  std::vector<opbound_attribute> attributes_;
  std::vector<opbound_tensor> tensors_, sealed_tensors_;
  std::vector<const opbound_attribute*> attribute_list_;
  std::vector<const opbound_tensor*> tensor_list_;
  opbound_call call_{}, sealed_call_{};
};

}  // namespace opbound::detail
