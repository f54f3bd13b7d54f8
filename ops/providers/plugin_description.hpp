// What a plug-in says of itself: texts of its process, which its own code may have written over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op.hpp"

namespace opbound::detail {

/// One kernel that the plug-in lists.
struct Listed {
  const Op* op = nullptr;
  bool forward = true, backward = true;
  std::vector<int> variants;  ///< it is one of them

  /// Those that the attributes allow.
  std::vector<int> allowed(const AttributeBytes& attributes) const;
};

bool contains(const std::vector<int>& all, int one);
std::vector<int> every_variant(const Op& op);

/// The number that the text is and nothing else, if it is one from 0 to 2^64 - 1.
std::optional<std::uint64_t> whole_number(std::string_view text);

/// What PluginLibrary::description writes, read strictly.
struct Description {
  std::string name, version, device, why_no_device;
  bool asks = false;  ///< has it supports() or workspace_size()?
  std::vector<Listed> listed;
  FunctionErrors functions = cuda_function_errors;
  std::vector<std::pair<std::string, std::string>> environment;

  /// Throws NotAPlugin for texts that end too soon, a number that is none, and an op, variant,
  /// direction or function that opbound does not know.
  explicit Description(const std::vector<std::string>& texts);

  /// As Provider::variants.
  std::vector<int> variants_for(const Op& op, Direction direction, const AttributeBytes& attributes,
                                int variant) const;
};

}  // namespace opbound::detail
