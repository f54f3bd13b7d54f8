#include "distributed/trace/twin.hpp"

#include <cmath>

#include "distributed/train/whole.hpp"
#include "ops/hash.hpp"

namespace opbound::trace {
namespace {

/// In [-1, 1).
double drawn(std::int64_t index, std::uint64_t seed) {
  return std::ldexp(static_cast<double>(element_hash(index, seed) >> 11), -52) - 1;
}

}  // namespace

void Twin::begin(const train::RunView& run) {
  const Element e = element_of(run.spec.policy.master);
  const Format kept = run.spec.policy.master;
  std::vector<std::byte> own = train::owned_array(run.machine, run.owned, e, run.arrays.master);
  std::int64_t at = 0;
  for (const train::Range& r : run.owned) {
    for (std::size_t p = 0; p < run.layout.parameters().size(); ++p) {
      const train::Range all = run.layout.parameter(p);
      const Format read = train::weight_format(run.spec.policy, run.layout.parameters()[p]);
      const std::int64_t first = std::max(all.begin, r.begin), last = std::min(all.end, r.end);
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t place = at + i - r.begin;
        const double w = load(e, own.data(), place);
        const double least = std::max(ulp(read, w) / 2, ulp(kept, w));
        const double moved = w + drawn(i, seed_) * least;
        store(e, own.data(), place, round_to(format_of(e), moved));
      }
    }
    at += r.count();
  }
  run.machine.write(run.arrays.master, own.data(), static_cast<std::int64_t>(own.size()));
}

}  // namespace opbound::trace
