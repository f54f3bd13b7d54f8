// What a library that adds by itself can be asked.
#pragma once

#include <string>

#include "distributed/program.hpp"

namespace opbound {

/// A library adds in the format that it moves, and stores every sum in it. In 8 bits, which nothing
/// here computes in, that is one addition of wider numbers that is stored: so of two ranks only,
/// and without a division after it. What has to be otherwise; else empty.
std::string library_refusal(const Reducer& reducer, const Schedule& schedule);

/// The reducer of a library for these attributes: two terms of 8 bits have one sum, which is stored
/// in the output's 8 bits at once.
Reducer library_reducer(Reducer reducer, const Format& stored, const Format& output,
                        std::int32_t ranks);

}  // namespace opbound
