// Which blocks of a call an audit looks at, and how likely it is to look at a faulty one.
#pragma once

#include <cstdint>
#include <vector>

namespace opbound::trace {

/// `count` different ones of [0, all), rising: every set of so many is as likely as another
/// (Floyd's algorithm; Bentley and Floyd 1987), from the seed alone. All of them where count >=
/// all.
std::vector<std::int64_t> sampled(std::int64_t all, std::int64_t count, std::uint64_t seed);

/// The probability that such a sample holds at least one of `faulty` ones:
///
///   1 - C(all - faulty, count) / C(all, count)  >=  1 - (1 - faulty / all)^count
double detection_probability(std::int64_t all, std::int64_t faulty, std::int64_t count);

}  // namespace opbound::trace
