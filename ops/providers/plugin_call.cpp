#include "ops/providers/plugin_call.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace opbound::detail {
namespace {

// The two lists of elements are one.
static_assert(static_cast<int>(Element::fp64) == OPBOUND_FP64);
static_assert(static_cast<int>(Element::fp32) == OPBOUND_FP32);
static_assert(static_cast<int>(Element::tf32) == OPBOUND_TF32);
static_assert(static_cast<int>(Element::bf16) == OPBOUND_BF16);
static_assert(static_cast<int>(Element::fp16) == OPBOUND_FP16);
static_assert(static_cast<int>(Element::e4m3) == OPBOUND_E4M3);
static_assert(static_cast<int>(Element::e5m2) == OPBOUND_E5M2);
static_assert(static_cast<int>(Element::int32) == OPBOUND_INT32);
static_assert(static_cast<int>(Element::int64) == OPBOUND_INT64);
static_assert(static_cast<int>(Element::boolean) == OPBOUND_BOOLEAN);

bool are_same(const opbound_tensor& a, const opbound_tensor& b) {
  const auto facts = [](const opbound_tensor& t) {
    return std::tuple(t.struct_size, t.name, t.role, t.element, t.rank, t.data);
  };
  return facts(a) == facts(b) && std::equal(a.size, std::end(a.size), b.size) &&
         std::equal(a.stride, std::end(a.stride), b.stride);
}

bool are_same(const opbound_call& a, const opbound_call& b) {
  const auto facts = [](const opbound_call& c) {
    return std::tuple(c.struct_size, c.op, c.direction, c.variant, c.compute, c.device,
                      c.device_index, c.attribute_count, c.attributes, c.tensor_count, c.tensors,
                      c.stream, c.workspace, c.workspace_size);
  };
  return facts(a) == facts(b);
}

}  // namespace

PluginCall::PluginCall(const Request& request, std::byte* base)
    : PluginCall(
          request,
          [&](const SharedTensor& t) -> void* {
            return base == nullptr ? nullptr : base + t.offset;
          },
          base == nullptr ? nullptr : base + request.workspace) {}

PluginCall::PluginCall(const Request& request, std::span<const TensorView> views, void* workspace)
    : PluginCall(
          request,
          [&](const SharedTensor& t) { return views[static_cast<std::size_t>(t.place)].data; },
          workspace) {}

PluginCall::PluginCall(const Request& request, const Address& address, void* workspace) {
  const Op& op = *request.op;
  add_attributes(request);
  add_tensors(request, address);
  call_.struct_size = sizeof call_;
  call_.op = text(op.name);
  call_.direction = request.is_backward ? "backward" : "forward";
  call_.variant = text(op.variants[static_cast<std::size_t>(request.variant)].name);
  call_.compute = static_cast<int>(request.compute);
  call_.attribute_count = attribute_list_.size();
  call_.attributes = attribute_list_.data();
  call_.tensor_count = tensor_list_.size();
  call_.tensors = tensor_list_.data();
  call_.workspace_size = request.workspace_bytes;
  if (request.workspace_bytes > 0) call_.workspace = workspace;
}

void PluginCall::set_device(int kind, int index, void* stream) {
  call_.device = kind;
  call_.device_index = index;
  call_.stream = stream;
}

void PluginCall::add_attributes(const Request& request) {
  for (const AttributeSpec& spec : request.op->attributes) {
    opbound_attribute a{};
    a.struct_size = sizeof a;
    a.name = text(spec.name);
    const AttributeValue value = spec.get(request.attributes);
    if (const auto* flag = std::get_if<bool>(&value)) {
      a.type = OPBOUND_FLAG;
      a.value.flag = *flag ? 1 : 0;
    } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      a.type = OPBOUND_WHOLE;
      a.value.whole = *whole;
    } else if (const auto* number = std::get_if<double>(&value)) {
      a.type = OPBOUND_NUMBER;
      a.value.number = *number;
    } else {
      a.type = OPBOUND_WORD;
      a.value.word = text(std::get<std::string>(value));
    }
    attributes_.push_back(a);
  }
  for (const opbound_attribute& a : attributes_) attribute_list_.push_back(&a);
}

void PluginCall::add_tensors(const Request& request, const Address& address) {
  for (const SharedTensor& shared : request.all()) {
    opbound_tensor t{};
    t.struct_size = sizeof t;
    t.name = text(request.name_of(shared));
    const auto place = static_cast<std::size_t>(shared.place);
    t.role = request.pass().tensors[place].is_written() ? OPBOUND_OUT : OPBOUND_IN;
    t.element = static_cast<int>(shared.view.element);
    t.rank = shared.view.rank;
    std::copy_n(shared.view.size, t.rank, t.size);
    std::copy_n(shared.view.stride, t.rank, t.stride);
    t.data = address(shared);
    tensors_.push_back(t);
  }
  for (const opbound_tensor& t : tensors_) tensor_list_.push_back(&t);
}

void PluginCall::seal() {
  sealed_tensors_ = tensors_;
  sealed_call_ = call_;
}

std::string PluginCall::tampering() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!are_same(tensors_[i], sealed_tensors_[i]))
      return "it changed the description of " + std::string(sealed_tensors_[i].name);
  return are_same(call_, sealed_call_) ? "" : "it changed the description of the call";
}

}  // namespace opbound::detail
