#include "distributed/trace/full_print.hpp"

#include <algorithm>
#include <cmath>

#include "ops/hash.hpp"

namespace opbound::trace {

void compare_weights(const Tensor& gradient, const Tensor& before, const Tensor& after,
                     FullPrint& full) {
  double change = 0, weight = 0;
  std::int64_t moved = 0, lost = 0;
  for (std::int64_t i = 0; i < before.count(); ++i) {
    const double w = before.at(i), d = after.at(i) - w;
    change += d * d;
    weight += w * w;
    if (gradient.at(i) == 0) continue;
    ++moved;
    if (d == 0) ++lost;
  }
  full.update_to_weight = weight > 0 ? std::sqrt(change / weight) : 0;
  full.lost_updates = moved > 0 ? static_cast<double>(lost) / static_cast<double>(moved) : 0;
}

std::vector<std::int64_t> largest_places(const Tensor& gradient) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(gradient.count()));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i);
  const auto is_before = [&](std::int64_t a, std::int64_t b) {
    const double x = std::abs(gradient.at(a)), y = std::abs(gradient.at(b));
    return x != y && !std::isnan(x) ? std::isnan(y) || x > y : std::isnan(y) && a < b;
  };
  const std::size_t kept = std::min(positions_kept, places.size());
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept),
                    places.end(), [&](std::int64_t a, std::int64_t b) {
                      return is_before(a, b) || (!is_before(b, a) && a < b);
                    });
  places.resize(kept);
  return places;
}

std::uint64_t hash_of(const Tensor& tensor) {
  const TensorView view =
      contiguous_view(tensor.element(), tensor.shape(),
                      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it only reads.
                      const_cast<std::byte*>(tensor.bytes().data()));
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    hash += element_hash(i, canonical_bits(view, i));
  return hash;
}

}  // namespace opbound::trace
