#include "distributed/skew.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace opbound {

std::string skew_text(Engine& engine, std::span<const double> ms_of_local_ranks) {
  const std::vector<std::byte> bytes = engine.gather(std::as_bytes(ms_of_local_ranks));
  std::vector<double> all(bytes.size() / sizeof(double));
  if (all.empty()) return "";
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const auto [least, most] = std::ranges::minmax(all);
  return fmt::format(
      "the last run: {:.3f} ms on the rank that came last, {:.3f} ms on the one that waited "
      "longest\n",
      least, most);
}

}  // namespace opbound
