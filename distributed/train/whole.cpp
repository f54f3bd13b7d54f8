#include "distributed/train/whole.hpp"

#include <cstring>

namespace opbound::train {

std::vector<std::byte> owned_array(Machine& machine, const std::vector<Range>& owned,
                                   Element element, const std::byte* array) {
  std::int64_t count = 0;
  for (const Range& r : owned) count += r.count();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(element)));
  machine.read(bytes.data(), array, count * bytes_of(element));
  return bytes;
}

std::vector<std::byte> whole_array(const Layout& layout, Collectives& ranks, Machine& machine,
                                   const std::vector<Range>& owned, Element element,
                                   const std::byte* array) {
  std::vector<std::byte> own = owned_array(machine, owned, element, array);
  const std::int64_t width = bytes_of(element);
  if (owned.size() == 1 && owned.front() == Range{0, layout.count()}) return own;
  std::vector<std::byte> flat(static_cast<std::size_t>(layout.count() * width));
  const std::vector<std::byte> all = ranks.gather(own);
  for (std::int32_t r = 0; r < ranks.size(); ++r) {
    std::size_t at = static_cast<std::size_t>(r) * own.size();
    for (std::size_t u = 0; u < layout.units().size(); ++u) {
      const Range range = layout.owned(u, r, ranks.size());
      const auto bytes = static_cast<std::size_t>(range.count() * width);
      std::memcpy(flat.data() + range.begin * width, all.data() + at, bytes);
      at += bytes;
    }
  }
  return flat;
}

}  // namespace opbound::train
