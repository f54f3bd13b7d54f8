#include "ops/providers/cudnn/call.hpp"

#include <sstream>

namespace opbound::with_cudnn {
namespace {

constexpr const char* element_names[] = {"fp64", "fp32", "tf32",  "bf16",  "fp16",
                                         "e4m3", "e5m2", "int32", "int64", "boolean"};

bool is_packed(const opbound_tensor& t) {
  std::int64_t expected = 1;
  for (int axis = t.rank - 1; axis >= 0; --axis) {
    if (t.size[axis] != 1 && t.stride[axis] != expected) return false;
    expected *= t.size[axis];
  }
  return true;
}

}  // namespace

std::string name_of(int element) { return element_names[element]; }

void require_aligned(const opbound_tensor& t) {
  require(reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0,
          "it takes tensors at multiples of 16 bytes");
}

const opbound_tensor& Call::tensor(const char* name) const {
  const opbound_tensor* t = opbound_tensor_named(&call_, name);
  if (t == nullptr) throw std::logic_error(std::string("the call has no tensor ") + name);
  return *t;
}

const opbound_attribute& Call::attribute(const char* name) const {
  const opbound_attribute* a = opbound_attribute_named(&call_, name);
  if (a == nullptr) throw std::logic_error(std::string("the call has no attribute ") + name);
  return *a;
}

bool Call::flag(const char* name) const { return attribute(name).value.flag != 0; }
std::int64_t Call::whole(const char* name) const { return attribute(name).value.whole; }
double Call::number(const char* name) const { return attribute(name).value.number; }
std::string Call::word(const char* name) const { return attribute(name).value.word; }

void Call::require_as_computed(std::initializer_list<const char*> attributes) const {
  for (const char* name : attributes)
    require(word(name) == "fp64", std::string("it has no ") + name + " = " + word(name));
}

void Call::require_elements() const {
  for (std::size_t i = 0; i < call_.tensor_count; ++i) {
    const opbound_tensor& t = *call_.tensors[i];
    for (int axis = 0; axis < t.rank; ++axis) {
      require(t.size[axis] > 0, "it takes no empty tensors");
      require(t.size[axis] == 1 || t.stride[axis] > 0, "it takes no strides of 0");
    }
  }
}

void Call::require_packed() const {
  require_elements();
  for (std::size_t i = 0; i < call_.tensor_count; ++i)
    require(is_packed(*call_.tensors[i]), "it is given packed tensors only");
}

std::string Call::signature() const {
  std::ostringstream text;
  text << std::hexfloat << call_.op << ' ' << call_.direction << ' ' << call_.compute << ' '
       << call_.device_index;
  for (std::size_t i = 0; i < call_.attribute_count; ++i) {
    const opbound_attribute& a = *call_.attributes[i];
    text << '\n' << a.name << ' ';
    if (a.type == OPBOUND_FLAG) text << a.value.flag;
    if (a.type == OPBOUND_WHOLE) text << a.value.whole;
    if (a.type == OPBOUND_NUMBER) text << a.value.number;
    if (a.type == OPBOUND_WORD) text << a.value.word;
  }
  for (std::size_t i = 0; i < call_.tensor_count; ++i) {
    const opbound_tensor& t = *call_.tensors[i];
    text << '\n' << t.name << ' ' << t.element;
    for (int axis = 0; axis < t.rank; ++axis) text << ' ' << t.size[axis] << ':' << t.stride[axis];
  }
  return text.str();
}

}  // namespace opbound::with_cudnn
