#include "distributed/train/tape.hpp"

#include <algorithm>
#include <numeric>

#include "distributed/train/cast_call.hpp"
#include "ops/set_attribute.hpp"

namespace opbound::train {
namespace {

Shape row_major(const Shape& size) {
  Shape stride(size.size());
  std::int64_t step = 1;
  for (std::size_t axis = size.size(); axis-- > 0; step *= size[axis]) stride[axis] = step;
  return stride;
}

bool draws(const CaseSpec& spec) { return spec.op->name == "dropout"; }

}  // namespace

std::int64_t Ref::count() const {
  return std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>());
}

bool Ref::is_contiguous() const {
  const Shape expected = row_major(size);
  for (std::size_t axis = 0; axis < size.size(); ++axis)
    if (size[axis] != 1 && stride[axis] != expected[axis]) return false;
  return true;
}

Ref Ref::reshaped(Shape axes) const {
  detail::require(is_contiguous(), "a reshaped value is contiguous");
  Ref r{value, std::move(axes), {}, offset};
  detail::require(r.count() == count(), "a reshaped value has as many elements");
  r.stride = row_major(r.size);
  return r;
}

Ref Ref::permuted(std::initializer_list<int> order) const {
  detail::require(order.size() == size.size(), "an order for every axis");
  Ref r{value, {}, {}, offset};
  for (const int axis : order) {
    r.size.push_back(size[static_cast<std::size_t>(axis)]);
    r.stride.push_back(stride[static_cast<std::size_t>(axis)]);
  }
  return r;
}

Ref Ref::part(int axis, std::int64_t first, std::int64_t count) const {
  const auto a = static_cast<std::size_t>(axis);
  detail::require(first >= 0 && first + count <= size[a], "a part lies within its value");
  Ref r = *this;
  r.size[a] = count;
  r.offset += first * stride[a];
  return r;
}

Ref Tape::hold(Value value) {
  Ref r{static_cast<int>(values_.size()), value.shape, row_major(value.shape), 0};
  values_.push_back(std::move(value));
  return r;
}

Ref Tape::new_value(std::string name, Element element, Shape shape) {
  return hold({std::move(name), element, std::move(shape), Life::temporary, -1});
}

CaseSpec Tape::spec_of(const Place& place, std::string_view op, Extents sizes,
                       Attributes attributes) const {
  const OpRule rule = policy_->rule(place.part, place.layer);
  CaseSpec spec;
  spec.op = find_op(op);
  detail::require(spec.op != nullptr, "a model calls ops that exist");
  spec.name = place.part;
  spec.precision = place.precision.value_or(rule.precision);
  spec.attributes = spec.op->default_attributes;
  for (const auto& [name, value] : rule.attributes)
    set_attribute(*spec.op, spec.attributes, name, value);
  for (const auto& [name, value] : attributes)
    set_attribute(*spec.op, spec.attributes, name, value);
  spec.variant = rule.variant.empty() ? spec.op->default_variant(spec.attributes)
                                      : spec.op->variant_named(rule.variant);
  detail::require(spec.variant >= 0, "a policy names variants that its op has");
  spec.declared = {spec.variant};
  for (const auto& [dim, size] : sizes) {
    const auto found = std::find(spec.op->dims.begin(), spec.op->dims.end(), dim);
    detail::require(found != spec.op->dims.end(), "a call sizes dimensions that its op has");
    spec.sizes[static_cast<std::size_t>(found - spec.op->dims.begin())] = size;
  }
  return spec;
}

Ref Tape::cast(const Ref& x, const Ref& y, int layer) {
  const Format from = format_of(value_of(x).element);
  const Format to = format_of(value_of(y).element);
  Step step;
  step.spec = spec_of({"cast", layer, Precision{from, compute_of_cast(from, to), to}}, "cast",
                      {{"n", x.count()}}, {});
  step.tensors = {x, y};
  step.provider = policy_->rule("cast", layer).provider;
  step.part = "cast";
  step.layer = layer;
  steps_.push_back(std::move(step));
  return y;
}

Ref Tape::stored(const Ref& x, const Format& format, int layer) {
  const Value& v = value_of(x);
  if (v.element == element_of(format) && x.is_contiguous()) return x;
  return cast(x, new_value(v.name, element_of(format), x.size), layer);
}

Ref Tape::operand(const CaseSpec& spec, const TensorSpec& tensor, const Ref& given, int layer) {
  const Element wanted = tensor_element(spec, tensor);
  const Value& v = value_of(given);
  if (!is_float(v.element) || v.element == wanted) return given;
  if (v.life != Life::parameter) return stored(given, format_of(wanted), layer);
  // A parameter is cast whole, once for all who read it so; the view stays.
  Ref& whole = stored_[{given.value, format_of(wanted).kind}];
  if (!whole.exists()) {
    const Ref all{given.value, v.shape, row_major(v.shape), 0};
    whole = cast(all, new_value(v.name, wanted, all.size), layer);
  }
  Ref r = given;
  r.value = whole.value;
  return r;
}

Tape::Outputs Tape::call(const Place& place, std::string_view op, Extents sizes, Named inputs,
                         Attributes attributes) {
  Step step;
  step.spec = spec_of(place, op, sizes, attributes);
  step.provider = policy_->rule(place.part, place.layer).provider;
  step.part = place.part;
  step.layer = place.layer;
  if (draws(step.spec)) step.site = sites_++;
  Outputs outputs;
  for (const TensorSpec& tensor : step.spec.op->forward.tensors) {
    if (!step.spec.op->has_tensor(step.spec.attributes, tensor.name)) {
      step.tensors.emplace_back();
    } else if (tensor.is_written()) {
      const Ref r = new_value(place.part + "." + std::string(tensor.name),
                              tensor_element(step.spec, tensor), tensor_shape(step.spec, tensor));
      step.tensors.push_back(r);
      outputs[tensor.name] = r;
    } else {
      const auto given = std::find_if(inputs.begin(), inputs.end(),
                                      [&](const auto& i) { return i.first == tensor.name; });
      const bool is_given = given != inputs.end() && given->second.exists();
      detail::require(is_given || tensor.may_be_left_out, "a call gives every input");
      step.tensors.push_back(is_given ? operand(step.spec, tensor, given->second, place.layer)
                                      : Ref{});
    }
  }
  steps_.push_back(std::move(step));
  return outputs;
}

Ref Tape::sum(int layer, const Ref& x, const Ref& r) {
  const Format stream = format_of(value_of(x).element);
  const Outputs y = call({"residual", layer}, "residual", {{"n", x.count()}},
                         {{"x", x.reshaped({x.count()})}, {"r", r.reshaped({r.count()})}},
                         {{"stream", std::string(opbound::name_of(stream))}});
  return y.at("y").reshaped(x.size);
}

void Tape::keep(const Ref& output, const Ref& there) {
  for (Step& step : steps_)
    for (Ref& r : step.tensors)
      if (r.value == output.value) {
        r.value = there.value;
        r.offset += there.offset;
      }
}

void Tape::begin_segment(const Format& stored) {
  detail::require(!in_segment_, "segments do not lie within each other");
  in_segment_ = true;
  segment_format_ = stored;
  segments_.push_back({steps_.size(), steps_.size(), {}});
}

void Tape::end_segment() {
  detail::require(in_segment_, "a segment was begun");
  in_segment_ = false;
  segments_.back().last = steps_.size();
  store_inputs(segments_.back());
}

}  // namespace opbound::train
