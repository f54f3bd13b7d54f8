#include "ops/providers/torch/call.hpp"

#include <torch/version.h>

namespace opbound::with_torch {
namespace {

at::Tensor view_of(const opbound_tensor& t, const opbound_call& call) {
  const auto rank = static_cast<std::size_t>(t.rank);
  const at::TensorOptions options =
      at::TensorOptions()
          .dtype(scalar_type_of(t.element))
          .device(call.device == OPBOUND_CUDA
                      ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(call.device_index))
                      : at::Device(at::kCPU));
  return at::from_blob(t.data, at::IntArrayRef(t.size, rank), at::IntArrayRef(t.stride, rank),
                       options);
}

}  // namespace

at::ScalarType scalar_type_of(int element) {
  switch (element) {
    case OPBOUND_FP64:
      return at::kDouble;
    case OPBOUND_FP32:
      return at::kFloat;
    case OPBOUND_BF16:
      return at::kBFloat16;
    case OPBOUND_FP16:
      return at::kHalf;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    case OPBOUND_E4M3:
      return at::kFloat8_e4m3fn;
    case OPBOUND_E5M2:
      return at::kFloat8_e5m2;
#endif
    case OPBOUND_INT32:
      return at::kInt;
    case OPBOUND_INT64:
      return at::kLong;
    case OPBOUND_BOOLEAN:
      return at::kBool;
    default:
      throw Unsupported("it has no format " + plugin_side::name_of(element));
  }
}

std::string name_of(at::ScalarType type) {
  for (int e = OPBOUND_FP64; e <= OPBOUND_FP16; ++e)
    if (e != OPBOUND_TF32 && scalar_type_of(e) == type) return plugin_side::name_of(e);
  return c10::toString(type);
}

at::Tensor Call::tensor(const char* name) const {
  const opbound_tensor* t = find(name);
  return t == nullptr ? at::Tensor() : view_of(*t, get());
}

at::ScalarType Call::format_of(const char* name) const {
  return scalar_type_of(plugin_side::Call::tensor(name).element);
}

void Call::copy(const char* name, const at::Tensor& value) const {
  const at::Tensor to = view_of(plugin_side::Call::tensor(name), get());
  if (value.sizes() != to.sizes())
    throw std::logic_error(std::string(name) + " has another shape than it should have");
  to.copy_(value.detach());
}

void Call::give(const char* name, const at::Tensor& value) const {
  if (!has(name)) return;
  const at::ScalarType wanted = format_of(name);
  require(value.scalar_type() == wanted, std::string("it gives ") + name + " in " +
                                             name_of(value.scalar_type()) + ", not in " +
                                             name_of(wanted));
  copy(name, value);
}

void Call::give_widened(const char* name, const at::Tensor& value) const {
  if (has(name)) copy(name, value);
}

}  // namespace opbound::with_torch
