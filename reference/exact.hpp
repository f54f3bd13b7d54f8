// What a certified reference says about one exact value, as plain data for the host and the device.
#pragma once

#include <cstdint>

namespace opbound {

/// An exact value known to lie in high + low +- radius.
///
/// finite: high = RN(value) to 53 bits, low the next 53 (of a value in the middle of what is
/// known); radius is rounded up and 0 only where high + low is the value itself. A radius of
/// infinity says that nothing is known, not even that the value is a number. beyond_double: the
/// value is finite and its rounding to double is not; high is the largest double with its sign. The
/// other classes speak for themselves; high then holds the infinity or NaN, low and radius are 0.
struct Exact {
  /// As wide as a double: an Exact has no bytes that nobody writes.
  enum class Class : std::uint64_t { finite, plus_infinity, minus_infinity, nan, beyond_double };

  double high = 0;
  double low = 0;
  double radius = 0;
  Class kind = Class::finite;
};

}  // namespace opbound
