#include "distributed/nonfinite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reports/text.hpp"

namespace opbound {

std::string to_string(const NonFinite& origin) {
  return fmt::format("{} of rank {}, {}[{}]", shortest(origin.value), origin.rank, origin.tensor,
                     origin.index);
}

std::optional<NonFinite> first_nonfinite(Engine& engine, const Buffers& given,
                                         const std::vector<TensorRange>& tensors) {
  struct Found {
    std::int64_t index = -1;
    double value = 0;
  };
  std::vector<Found> own;
  for (const auto& elements : given) {
    const auto place = std::find_if_not(elements.begin(), elements.end(),
                                        [](double v) { return std::isfinite(v); });
    own.emplace_back();
    if (place != elements.end()) own.back() = {place - elements.begin(), *place};
  }
  const std::vector<std::byte> bytes = engine.gather(std::as_bytes(std::span(own)));
  std::vector<Found> all(bytes.size() / sizeof(Found));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Found& f) { return f.index >= 0; });
  if (first == all.end()) return std::nullopt;
  NonFinite origin{static_cast<std::int32_t>(first - all.begin()), "x", first->index, first->value};
  for (const TensorRange& t : tensors)
    if (first->index >= t.range.first && first->index < t.range.first + t.range.count) {
      origin.tensor = t.name;
      origin.index = first->index - t.range.first;
    }
  return origin;
}

}  // namespace opbound
