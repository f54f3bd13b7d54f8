#include "distributed/engine_provider.hpp"

#include <algorithm>

namespace opbound {

void EngineProvider::run(const Op& op, const Call& call) const {
  detail::require(op.name == all_reduce::name && call.sizes[0] == engine_.ranks(),
                  "an engine runs the all-reduce of its ranks");
  const auto a = from_bytes<all_reduce::Attributes>(call.attributes);
  const TensorView x = call.forward[all_reduce::forward::x],
                   y = call.forward[all_reduce::forward::y];
  const Format output = format_of(y.element);
  const Reducer reducer = reducer_of(a, call.compute, output, call.sizes[0]);
  const Schedule schedule{
      Collective::all_reduce, order_, engine_.ranks(),
      static_cast<std::int32_t>(std::min<std::int64_t>(a.group, engine_.ranks()))};
  const std::int64_t n = call.sizes[1];
  Buffers buffers;
  for (std::int32_t k = 0; k < engine_.local_ranks(); ++k) {
    auto& own = buffers.emplace_back(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const double given = x.at((engine_.first_rank() + k) * n + i);
      own[static_cast<std::size_t>(i)] = engine_.own_term(reducer, given);
    }
  }
  engine_.run(schedule, reducer, buffers);
  std::vector<std::byte> bytes;
  for (const auto& own : buffers) {
    const auto own_bytes = std::as_bytes(std::span(own));
    bytes.insert(bytes.end(), own_bytes.begin(), own_bytes.end());
  }
  const std::vector<std::byte> all = engine_.gather(bytes);
  for (std::int64_t i = 0; i < n; ++i)
    y.set(i, round_to(output, detail::read_element<double>(all.data(), i)));
}

}  // namespace opbound
