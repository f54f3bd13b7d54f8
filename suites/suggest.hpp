// What to say of a name that is not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace opbound::detail {

/// "'sigam' (sigma?)": the name in quotes, with the nearest of the known ones if it is near.
std::string in_quotes_with_suggestion(std::string_view name,
                                      std::span<const std::string_view> known);

/// "one of a, b, c"; "a" for a single one.
std::string one_of(std::span<const std::string_view> names);

}  // namespace opbound::detail
