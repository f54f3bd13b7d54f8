#include "ops/providers/cudnn/call.hpp"

#include <sstream>

namespace opbound::with_cudnn {
namespace {

bool is_packed(const opbound_tensor& t) {
  std::int64_t expected = 1;
  for (int axis = t.rank - 1; axis >= 0; --axis) {
    if (t.size[axis] != 1 && t.stride[axis] != expected) return false;
    expected *= t.size[axis];
  }
  return true;
}

}  // namespace

void require_aligned(const opbound_tensor& t) {
  require(reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0,
          "it takes tensors at multiples of 16 bytes");
}

void Call::require_elements() const {
  for (std::size_t i = 0; i < get().tensor_count; ++i) {
    const opbound_tensor& t = *get().tensors[i];
    for (int axis = 0; axis < t.rank; ++axis) {
      require(t.size[axis] > 0, "it takes no empty tensors");
      require(t.size[axis] == 1 || t.stride[axis] > 0, "it takes no strides of 0");
    }
  }
}

void Call::require_packed() const {
  require_elements();
  for (std::size_t i = 0; i < get().tensor_count; ++i)
    require(is_packed(*get().tensors[i]), "it is given packed tensors only");
}

std::string Call::signature() const {
  const opbound_call& call = get();
  std::ostringstream text;
  text << std::hexfloat << call.op << ' ' << call.direction << ' ' << call.compute << ' '
       << call.device_index;
  for (std::size_t i = 0; i < call.attribute_count; ++i) {
    const opbound_attribute& a = *call.attributes[i];
    text << '\n' << a.name << ' ';
    if (a.type == OPBOUND_FLAG) text << a.value.flag;
    if (a.type == OPBOUND_WHOLE) text << a.value.whole;
    if (a.type == OPBOUND_NUMBER) text << a.value.number;
    if (a.type == OPBOUND_WORD) text << a.value.word;
  }
  for (std::size_t i = 0; i < call.tensor_count; ++i) {
    const opbound_tensor& t = *call.tensors[i];
    text << '\n' << t.name << ' ' << t.element;
    for (int axis = 0; axis < t.rank; ++axis) text << ' ' << t.size[axis] << ':' << t.stride[axis];
  }
  return text.str();
}

}  // namespace opbound::with_cudnn
