#include "suites/prepare.hpp"

#include <algorithm>
#include <limits>

#include "suites/input.hpp"

namespace opbound {
namespace {

/// NaN; in integers and booleans a pattern of bits that no kernel gives.
void poison(Tensor& tensor) {
  if (is_float(tensor.element()))
    tensor.fill(std::numeric_limits<double>::quiet_NaN());
  else
    std::fill(tensor.bytes().begin(), tensor.bytes().end(), std::byte{0x5a});
}

void fill(const CaseSpec& spec, Tensor& tensor, const TensorSpec& t) {
  const auto given = std::find_if(spec.inputs.begin(), spec.inputs.end(),
                                  [&](const auto& i) { return i.first == t.name; });
  InputSpec input;
  input.kind = default_kind(tensor.element());
  if (given != spec.inputs.end()) input = given->second;
  fill_input(tensor, input, spec.seed, t.name, t.below.empty() ? 0 : size_of(spec, t.below));
}

/// The tensor's values, laid out as its input says.
TensorView arrange(Tensor& tensor, Layout layout, std::vector<Tensor>& storage) {
  TensorView view = tensor.view();
  if (layout == Layout::contiguous || view.rank == 0) return view;
  const std::int64_t count = tensor.count(), width = bytes_of(view.element);
  if (layout == Layout::unaligned) {
    Tensor& bytes = storage.emplace_back(view.element, Shape{count + 1});
    view.data = bytes.bytes().data() + width;
    std::copy(tensor.bytes().begin(), tensor.bytes().end(), bytes.bytes().begin() + width);
    return view;
  }
  Tensor& bytes = storage.emplace_back(view.element, Shape{count});
  TensorView to = view;
  to.data = bytes.bytes().data();
  if (layout == Layout::broadcast) {
    const std::int64_t row = view.stride[0];
    to.stride[0] = 0;
    for (std::int64_t i = row; i < count; ++i)  // the case's values are those that the view shows
      std::copy_n(tensor.bytes().begin() + i % row * width, width,
                  tensor.bytes().begin() + i * width);
  } else {
    std::int64_t stride = 1;
    for (int axis = 0; axis < view.rank; stride *= view.size[axis++]) to.stride[axis] = stride;
  }
  for (std::int64_t i = 0; i < count; ++i)
    std::copy_n(tensor.bytes().begin() + i * width, width,
                bytes.bytes().begin() + to.offset(i) * width);
  return to;
}

Layout layout_of(const CaseSpec& spec, std::string_view tensor) {
  for (const auto& [name, input] : spec.inputs)
    if (name == tensor) return input.layout;
  return Layout::contiguous;
}

std::vector<TensorView> bind_pass(const CaseSpec& spec, const PassInfo& pass, Prepared& prepared) {
  std::vector<TensorView> views;
  for (const TensorSpec& t : pass.tensors) {
    auto [place, is_new] = prepared.tensors.try_emplace(std::string(t.name));
    if (is_new) {
      place->second = Tensor(tensor_element(spec, t), tensor_shape(spec, t));
      if (t.is_written()) {
        poison(place->second);
      } else {
        if (place->second.count() > 0) fill(spec, place->second, t);
      }
    }
    views.push_back(arrange(place->second, layout_of(spec, t.name), prepared.arranged));
  }
  return views;
}

/// Is there nothing that the forward pass would have to save for the backward pass?
bool has_saved(const CaseSpec& spec, const Tensors& tensors) {
  const auto is_there = [&](const TensorSpec& t) {
    return t.role != Role::saved || tensors.contains(t.name) ||
           std::any_of(spec.inputs.begin(), spec.inputs.end(),
                       [&](const auto& input) { return input.first == t.name; });
  };
  return std::all_of(spec.op->backward->tensors.begin(), spec.op->backward->tensors.end(),
                     is_there);
}

}  // namespace

Prepared prepare(const CaseSpec& spec, Tensors given) {
  Prepared p;
  p.tensors = std::move(given);
  p.call = {
      spec.direction, spec.attributes, spec.variant, spec.sizes, spec.precision.compute, {}, {}};
  if (spec.direction == Direction::backward_local && has_saved(spec, p.tensors)) {
    p.call.backward = bind_pass(spec, *spec.op->backward, p);
    return p;
  }
  p.call.forward = bind_pass(spec, spec.op->forward, p);
  if (spec.direction == Direction::forward) return p;
  p.call.backward = bind_pass(spec, *spec.op->backward, p);
  if (spec.direction == Direction::backward_local) {
    Call forward = p.call;
    forward.direction = Direction::forward;
    forward.backward.clear();
    spec.op->run(forward);
    p.call.forward.clear();
  }
  return p;
}

}  // namespace opbound
