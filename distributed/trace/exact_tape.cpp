#include "distributed/trace/exact_tape.hpp"

#include <algorithm>

#include "ops/set_attribute.hpp"

namespace opbound::trace {
namespace {

using train::Ref;
using train::Step;

constexpr Precision exact_precision{fp64, fp64, fp64};

Element exact_element(Element e) { return is_float(e) ? Element::fp64 : e; }

/// What an op holds in a format of its own it holds in fp64, which is to say exactly.
AttributeBytes exact_attributes(const Op& op, AttributeBytes bytes) {
  for (const AttributeSpec& a : op.attributes) {
    const AttributeValue value = a.get(bytes);
    const auto* word = std::get_if<std::string>(&value);
    const bool is_format = word != nullptr && format_named(*word).has_value();
    if (is_format) detail::require(a.set(bytes, std::string(name_of(fp64))), "a format is set");
  }
  if (op.name == "cast") set_attribute(op, bytes, "saturate", false);
  return bytes;
}

/// The algorithm that ran where it is there in fp64.
int exact_variant(const Op& op, int variant, const AttributeBytes& attributes) {
  if (op.name != "cast" && op.allows(attributes, variant) && op.fits(exact_precision, variant))
    return variant;
  return op.default_variant(attributes);
}

int place_of(std::span<const TensorSpec> tensors, std::string_view name) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return static_cast<int>(i);
  return -1;
}

TensorView no_tensor() { return contiguous_view(Element::fp64, {0}, nullptr); }

const PassInfo& pass_of(const Step& step) { return step.spec.op->pass(step.spec.direction); }

bool writes(const Step& step, int value) {
  const auto tensors = pass_of(step).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].is_written() && step.tensors[t].value == value) return true;
  return false;
}

/// The forward pass's tensor that "dx" is the gradient of, or -1.
int gradient_of(std::span<const TensorSpec> forward, std::string_view name) {
  return name.starts_with('d') ? place_of(forward, name.substr(1)) : -1;
}

Tensor& value_at(Values& values, const Ref& r) { return values[static_cast<std::size_t>(r.value)]; }

}  // namespace

TensorView view_of(Tensor& value, const Ref& r) {
  TensorView view = value.view();
  view.data = value.bytes().data() + r.offset * bytes_of(value.element());
  view.rank = static_cast<int>(r.size.size());
  for (std::size_t axis = 0; axis < r.size.size(); ++axis) {
    view.size[axis] = r.size[axis];
    view.stride[axis] = r.stride[axis];
  }
  return view;
}

void copy_to(const TensorView& to, const TensorView& from) {
  detail::require(to.count() == from.count(), "what is copied has as many elements");
  for (std::int64_t i = 0, n = to.count(); i < n; ++i) {
    if (is_float(to.element))
      to.set(i, from.at(i));
    else
      store_index(to.element, to.data, to.offset(i),
                  load_index(from.element, from.data, from.offset(i)));
  }
}

void add_to(const TensorView& to, const TensorView& from) {
  detail::require(to.count() == from.count(), "what is added has as many elements");
  for (std::int64_t i = 0, n = to.count(); i < n; ++i) to.set(i, to.at(i) + from.at(i));
}

ExactTape::ExactTape(const train::Tape& tape, int loss) : tape_(tape), loss_(loss) {
  const auto& steps = tape.steps();
  const auto last = std::find_if(steps.begin(), steps.end(),
                                 [&](const Step& step) { return writes(step, loss); });
  detail::require(last != steps.end(), "a tape gives its loss");
  forward_calls_ = static_cast<std::size_t>(last - steps.begin()) + 1;
  for (const Step& step : steps) {
    CaseSpec exact = step.spec;
    exact.precision = exact_precision;
    exact.attributes = exact_attributes(*exact.op, exact.attributes);
    const auto tensors = pass_of(step).tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t)
      detail::require(
          !step.tensors[t].exists() || tensor_element(exact, tensors[t]) ==
                                           exact_element(tape.value_of(step.tensors[t]).element),
          "in fp64 every tensor of a call is stored in fp64");
  }
}

Tensor ExactTape::zeros(int value) const {
  const train::Value& v = tape_.values()[static_cast<std::size_t>(value)];
  return {exact_element(v.element), v.shape};
}

Call ExactTape::call_of(const Step& step, const AttributeBytes& as_run, Direction direction) const {
  Call call;
  call.direction = direction;
  call.attributes = exact_attributes(*step.spec.op, as_run);
  call.variant = exact_variant(*step.spec.op, step.spec.variant, call.attributes);
  call.sizes = step.spec.sizes;
  call.compute = fp64;
  return call;
}

void ExactTape::run(std::size_t index, const AttributeBytes& as_run, const Find& find) const {
  const Step& step = tape_.steps()[index];
  Call call = call_of(step, as_run, step.spec.direction);
  auto& views = call.direction == Direction::forward ? call.forward : call.backward;
  const auto tensors = pass_of(step).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Ref& r = step.tensors[t];
    views.push_back(r.exists() ? view_of(find(r.value, tensors[t].is_written()), r) : no_tensor());
  }
  own_->run(*step.spec.op, call);
}

Values ExactTape::adjoints(const std::vector<AttributeBytes>& as_run, Values& inputs,
                           Values& outputs) const {
  Values adjoint = no_values();
  Tensor& of_loss = adjoint[static_cast<std::size_t>(loss_)] = zeros(loss_);
  of_loss.fill(1);
  for (std::size_t i = forward_calls_; i-- > 0;)
    pull(tape_.steps()[i], as_run[i], inputs, outputs, adjoint);
  return adjoint;
}

void ExactTape::add_gradient(Values& adjoint, const Ref& x, const TensorView& dx) const {
  Tensor& all = adjoint[static_cast<std::size_t>(x.value)];
  if (all.count() == 0) all = zeros(x.value);
  add_to(view_of(all, x), dx);
}

void ExactTape::pull(const Step& step, const AttributeBytes& as_run, Values& inputs,
                     Values& outputs, Values& adjoint) const {
  const Op& op = *step.spec.op;
  const auto forward = op.forward.tensors;
  bool is_wanted = false;
  for (std::size_t t = 0; t < forward.size(); ++t)
    if (forward[t].is_written() && step.tensors[t].exists())
      is_wanted = is_wanted || value_at(adjoint, step.tensors[t]).count() > 0;
  if (!is_wanted) return;
  if (op.name == "cast")
    return add_gradient(adjoint, step.tensors[0],
                        view_of(value_at(adjoint, step.tensors[1]), step.tensors[1]));
  detail::require(op.backward.has_value(), "an op of a model has a backward pass");
  Call call = call_of(step, as_run, Direction::backward_local);
  const auto backward = op.backward->tensors;
  std::vector<Tensor> made(backward.size());
  const auto view_of_tensor = [&](std::size_t t) {
    const std::string_view name = backward[t].name;
    if (!op.has_tensor(step.spec.attributes, name)) return no_tensor();
    if (backward[t].is_written()) {
      made[t] = Tensor(Element::fp64, tensor_shape(step.spec, backward[t]));
      return made[t].view();
    }
    if (const int same = place_of(forward, name); same >= 0) {
      const auto s = static_cast<std::size_t>(same);
      const Ref& r = step.tensors[s];
      if (!r.exists()) return no_tensor();
      return view_of(value_at(forward[s].is_written() ? outputs : inputs, r), r);
    }
    const int origin = gradient_of(forward, name);
    detail::require(origin >= 0, "a backward pass reads what the forward pass has, or gradients");
    const Ref& y = step.tensors[static_cast<std::size_t>(origin)];
    Tensor& dy = value_at(adjoint, y);
    if (dy.count() == 0) dy = zeros(y.value);
    return view_of(dy, y);
  };
  for (std::size_t t = 0; t < backward.size(); ++t) call.backward.push_back(view_of_tensor(t));
  own_->run(op, call);
  for (std::size_t t = 0; t < backward.size(); ++t) {
    if (!backward[t].is_written() || made[t].count() == 0) continue;
    const int origin = gradient_of(forward, backward[t].name);
    // The scratch "ds" of attention is nobody's gradient, though its forward pass has a scratch
    // "s".
    if (origin < 0 || forward[static_cast<std::size_t>(origin)].is_written()) continue;
    const Ref& x = step.tensors[static_cast<std::size_t>(origin)];
    if (x.exists()) add_gradient(adjoint, x, made[t].view());
  }
}

}  // namespace opbound::trace
