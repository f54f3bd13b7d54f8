// Arrays from one format into another, by the op `cast`, in order with a machine's other calls.
#pragma once

#include "distributed/train/machine.hpp"

namespace opbound::train {

/// Each element rounded to nearest even, once, by that provider; of equal formats a copy. `from` is
/// only read.
void cast_array(Machine& machine, const Provider& by, std::byte* from, const Format& from_format,
                std::byte* to, const Format& to_format, std::int64_t count);

/// The format in which a cast computes: the narrower of those that hold both.
Format compute_of_cast(const Format& from, const Format& to);

}  // namespace opbound::train
