// JSON that somebody else wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace opbound::detail {

/// Parses text that nests no deeper than `deepest` lists and objects in one another; what is
/// deeper, or no JSON, is discarded. nlohmann's parser keeps its own stack, but copying, comparing
/// and writing a value calls itself once for each level: text of a few hundred KiB would end the
/// program.
template <class Json>
Json parse_json(std::string_view text, int deepest) {
  bool is_too_deep = false;
  const auto watch = [&](int depth, typename Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > deepest;
    return !is_too_deep;
  };
  Json parsed = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (is_too_deep) return Json(Json::value_t::discarded);
  return parsed;
}

}  // namespace opbound::detail
