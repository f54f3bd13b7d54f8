#include "distributed/runs.hpp"

#include <algorithm>
#include <limits>

#include "distributed/library.hpp"

namespace opbound {

CollectiveRuns::CollectiveRuns(const CollectiveSpec& collective, Engine& engine, const Tensor& x)
    : c_(collective),
      engine_(engine),
      x_(x),
      schedule_(schedule_of(collective)),
      reducer_(reducer_of(collective.spec)),
      n_(collective.spec.sizes[1]) {}

std::vector<double> CollectiveRuns::given(std::int64_t rank, std::int64_t first,
                                          std::int64_t count) const {
  std::vector<double> elements(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    elements[static_cast<std::size_t>(i)] = x_.at(rank * n_ + first + i);
  return elements;
}

Buffers CollectiveRuns::of_local_ranks(
    std::int64_t first, std::int64_t count,
    const std::function<void(std::int32_t, std::vector<double>&)>& action) const {
  Buffers buffers;
  for (std::int32_t k = 0; k < engine_.local_ranks(); ++k) {
    const std::int32_t rank = engine_.first_rank() + k;
    buffers.push_back(given(rank, first, count));
    action(rank, buffers.back());
  }
  return buffers;
}

Buffers CollectiveRuns::gathered(Buffers buffers) {
  const Format& output = c_.spec.precision.output;
  const Element element = element_of(output);
  const auto width = static_cast<std::size_t>(bytes_of(element));
  const std::size_t count = buffers.front().size();
  std::vector<std::byte> own(buffers.size() * count * width);
  for (std::size_t r = 0; r < buffers.size(); ++r)
    for (std::size_t i = 0; i < count; ++i)
      store(element, own.data(), static_cast<std::int64_t>(r * count + i),
            round_to(output, buffers[r][i]));
  const std::vector<std::byte> all = engine_.gather(own);
  Buffers results(
      count == 0 ? static_cast<std::size_t>(engine_.ranks()) : all.size() / (count * width),
      std::vector<double>(count));
  for (std::size_t r = 0; r < results.size(); ++r)
    for (std::size_t i = 0; i < count; ++i)
      results[r][i] = load(element, all.data(), static_cast<std::int64_t>(r * count + i));
  return results;
}

Buffers CollectiveRuns::whole(const Circumstances& circumstances) {
  return adds(c_.collective) ? reduced(reducer_, 0, n_, circumstances) : moved(circumstances);
}

Buffers CollectiveRuns::reduced(const Reducer& asked, std::int64_t first, std::int64_t count,
                                const Circumstances& circumstances) {
  Reducer reducer = asked;
  if (!engine_.traits().keeps_order)
    reducer = library_reducer(asked, c_.spec.precision.storage, c_.spec.precision.output,
                              schedule_.ranks);
  Buffers buffers = of_local_ranks(first, count, [&](std::int32_t, std::vector<double>& own) {
    for (double& v : own) v = engine_.own_term(reducer, v);
  });
  engine_.run(schedule_, reducer, buffers, circumstances);
  Buffers results = gathered(std::move(buffers));
  if (schedule_.collective != Collective::reduce_scatter) return results;
  std::vector<double> all(static_cast<std::size_t>(count));
  for (std::int32_t r = 0; r < schedule_.ranks; ++r) {
    const Chunk shard = chunk_of(schedule_, count, r);
    const auto& own = results[static_cast<std::size_t>(r)];
    std::copy_n(own.begin() + shard.first, shard.count, all.begin() + shard.first);
  }
  return {all};
}

Buffers CollectiveRuns::moved(const Circumstances& circumstances) {
  Buffers buffers = of_local_ranks(0, n_, [&](std::int32_t rank, std::vector<double>& own) {
    const Chunk shard = c_.collective == Collective::broadcast ? Chunk{0, rank == 0 ? n_ : 0}
                                                               : chunk_of(schedule_, n_, rank);
    own = given(0, 0, n_);
    for (std::int64_t i = 0; i < n_; ++i)
      if (i < shard.first || i >= shard.first + shard.count)
        own[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
  });
  engine_.run(schedule_, reducer_, buffers, circumstances);
  return gathered(std::move(buffers));
}

}  // namespace opbound
