// The matrix units among the variants of opbound's matmul.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace opbound::with_cublas {

/// A variant that is a matrix unit, and the devices that have it: compute capabilities, 9.0 as 90.
struct Unit {
  const char* variant;
  int first, last;
};

/// Turing's (7.5) have not been measured as Volta's and Ampere's have: they are one of the two, and
/// the larger bound judges.
inline constexpr Unit units[] = {{"volta", 70, 79},
                                 {"ampere", 75, 88},
                                 {"ada", 89, 89},
                                 {"hopper", 90, 99},
                                 {"blackwell", 100, 1 << 30}};

/// Is a call of this variant to be judged as a matrix unit and nothing else?
inline bool is_unit(std::string_view variant) {
  return std::any_of(std::begin(units), std::end(units),
                     [&](const Unit& u) { return u.variant == variant; });
}

/// Those of the machine, "hopper" on most. opbound says which device it is only after the plug-in
/// has said what it is: where there are several generations, it is any of them.
std::string units_here();

}  // namespace opbound::with_cublas
