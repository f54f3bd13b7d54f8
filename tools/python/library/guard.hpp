// What stands between C and C++: structs of any size, errors as messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "ops/provider.h"
#include "reports/error.hpp"

namespace opbound::library {

/// What the caller's struct holds of those members that this library knows.
template <class T>
T read_struct(const T* theirs, const char* name) {
  if (theirs == nullptr) throw InputError(name, "NULL", "a struct");
  if (theirs->struct_size < sizeof theirs->struct_size)
    throw InputError(name, "struct_size is " + std::to_string(theirs->struct_size),
                     "its size in bytes");
  T ours{};
  std::memcpy(&ours, theirs, std::min(theirs->struct_size, sizeof ours));
  return ours;
}

/// Writes as much as the caller's struct holds.
template <class T>
void write_struct(T* theirs, T ours) {
  const std::size_t size = theirs->struct_size;
  ours.struct_size = size;
  std::memcpy(theirs, &ours, std::min(size, sizeof ours));
}

inline std::string text_of(const char* text) { return text == nullptr ? "" : text; }

inline void require(bool holds, const char* where, const std::string& what,
                    const std::string& expected) {
  if (!holds) throw InputError(where, what, expected);
}

/// Runs `action`; whatever it throws becomes a message.
template <class F>
int guarded(char* message, std::size_t message_size, F action) {
  const auto told = [&](const char* why) {
    if (message != nullptr && message_size > 0) std::snprintf(message, message_size, "%s", why);
    return OPBOUND_FAILED;
  };
  try {
    action();
    return OPBOUND_OK;
  } catch (const std::bad_alloc&) {
    return told("out of memory");
  } catch (const std::exception& e) {
    return told(e.what());
  } catch (...) {
    return told("unknown error");
  }
}

}  // namespace opbound::library
