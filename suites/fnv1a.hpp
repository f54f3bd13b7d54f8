// The 64-bit FNV-1a hash (Fowler, Noll and Vo).
#pragma once

#include <cstdint>

namespace opbound::detail {

/// Takes bytes in, one after the other.
struct Fnv1a {
  std::uint64_t value = 0xcbf29ce484222325;

  constexpr void take(std::uint8_t byte) { value = (value ^ byte) * 0x100000001b3; }
};

}  // namespace opbound::detail
