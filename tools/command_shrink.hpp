// What `opbound explain --shrink` says of the smallest failure, and the program that shows it.
#pragma once

#include <string>

#include "suites/shrink.hpp"

namespace opbound {

/// The case's sizes, every input and the element that exceeds, in hexadecimal.
std::string describe(const Shrunk& shrunk);

/// A C++17 program that needs nothing but its standard library: it prints the inputs, got, the
/// exact interval, the bound and what a correct kernel may store, and exits with 1 since got is not
/// that.
std::string program_text(const Failure& failure);

}  // namespace opbound
