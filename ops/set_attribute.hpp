// Setting an op's attribute by name, for calls that a program makes itself.
#pragma once

#include "ops/op.hpp"

namespace opbound {

/// The op has an attribute of this name that takes such a value; anything else is a programmer's
/// error and aborts.
inline void set_attribute(const Op& op, AttributeBytes& bytes, std::string_view name,
                          const AttributeValue& value) {
  for (const AttributeSpec& a : op.attributes)
    if (a.name == name) return detail::require(a.set(bytes, value), "an attribute takes its value");
  detail::require(false, "an op has the attributes that are set");
}

}  // namespace opbound
