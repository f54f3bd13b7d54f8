#include "distributed/trace/sample.hpp"

#include <algorithm>
#include <set>

#include "ops/hash.hpp"

namespace opbound::trace {

std::vector<std::int64_t> sampled(std::int64_t all, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> places;
  if (count >= all) {
    for (std::int64_t i = 0; i < all; ++i) places.push_back(i);
    return places;
  }
  std::set<std::int64_t> chosen;
  for (std::int64_t last = all - count; last < all; ++last) {
    // of 2^64 numbers modulo at most 2^40: no place is likelier than another by more than 2^-24
    const auto draw =
        static_cast<std::int64_t>(element_hash(last, seed) % static_cast<std::uint64_t>(last + 1));
    if (!chosen.insert(draw).second) chosen.insert(last);
  }
  places.assign(chosen.begin(), chosen.end());
  return places;
}

double detection_probability(std::int64_t all, std::int64_t faulty, std::int64_t count) {
  double missed = 1;
  for (std::int64_t i = 0; i < std::min(all, count); ++i)
    missed *= static_cast<double>(std::max<std::int64_t>(0, all - faulty - i)) /
              static_cast<double>(all - i);
  return 1 - missed;
}

}  // namespace opbound::trace
