// Ranks that run different things are no run: they would add what does not belong together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "distributed/engine.hpp"

namespace opbound {

/// The first rank whose words are not rank 0's; nothing where all have the same. Every process
/// calls it, with whatever decides what it will do. Throws ProviderFailure where the ranks do.
std::optional<std::int32_t> first_unlike(Engine& engine, std::string_view words);

/// Calls action() in every process; where it throws InputError in one of them, all throw, so that
/// nobody waits for one that has ended.
void all_or_none(Engine& engine, const std::function<void()>& action);

}  // namespace opbound
