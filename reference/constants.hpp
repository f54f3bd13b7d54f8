// Constants that a definition asks its own number type for.
#pragma once

#include "ops/portable.hpp"

namespace opbound {

/// The circle's constant in T: rounded once (Mpfr, DoubleDouble) or enclosed (Enclosure).
template <class T>
OPBOUND_HD T pi();

}  // namespace opbound
