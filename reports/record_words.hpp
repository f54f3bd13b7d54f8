// Parts of a record as tables write them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "reports/record.hpp"

namespace opbound {

/// "64x1000", with `times` for the x.
inline std::string shape_text(const Record& r, std::string_view times) {
  std::string text;
  for (const auto& [name, size] : r.inputs.shape)
    text.append(text.empty() ? "" : times).append(std::to_string(size));
  return text;
}

/// "backward_local" as "backward local", where it has to be brief as "bwd local".
inline std::string direction_text(std::string text, bool brief) {
  std::ranges::replace(text, '_', ' ');
  for (const std::string_view word : {"forward", "backward"})
    if (brief && text.starts_with(word))
      text.replace(0, word.size(), word == "forward" ? "fwd" : "bwd");
  return text;
}

}  // namespace opbound
