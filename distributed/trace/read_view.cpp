#include "distributed/trace/read_view.hpp"

#include <cstring>

namespace opbound::trace {

Tensor copied(train::Machine& machine, const TensorView& view) {
  Tensor tensor(view.element, Shape(view.size, view.size + view.rank));
  const std::int64_t width = bytes_of(view.element);
  if (tensor.count() == 0) return tensor;
  if (view.is_contiguous()) {
    machine.read(tensor.bytes().data(), view.data, tensor.count() * width);
    return tensor;
  }
  std::vector<std::byte> extent(static_cast<std::size_t>(view.extent() * width));
  machine.read(extent.data(), view.data, view.extent() * width);
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    std::memcpy(tensor.bytes().data() + i * width, extent.data() + view.offset(i) * width,
                static_cast<std::size_t>(width));
  return tensor;
}

}  // namespace opbound::trace
