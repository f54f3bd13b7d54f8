#include "distributed/train/initial.hpp"

#include "ops/parallel.hpp"
#include "suites/generator.hpp"

namespace opbound::train {

void fill_initial(const ParameterSpec& p, std::uint64_t seed, std::span<double> to) {
  const opbound::detail::Place all{fp64, {}, 1, seed, opbound::detail::stream_of(p.name)};
  parallel_for(static_cast<std::int64_t>(to.size()), 16, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    to[at] = p.deviation == 0
                 ? p.mean
                 : p.mean + p.deviation * opbound::detail::standard_normal(
                                              all.words_of(static_cast<std::uint64_t>(i)));
  });
}

}  // namespace opbound::train
