// The backward pass of a tape, from the ops' own descriptions.
#include <algorithm>
#include <set>

#include "distributed/train/tape.hpp"

namespace opbound::train {
namespace {

int forward_place(const Op& op, std::string_view name) {
  for (std::size_t i = 0; i < op.forward.tensors.size(); ++i)
    if (op.forward.tensors[i].name == name) return static_cast<int>(i);
  return -1;
}

/// The forward pass's tensor that "dx" is the gradient of, or -1.
int gradient_of(const Op& op, std::string_view name) {
  return name.size() > 1 && name.front() == 'd' ? forward_place(op, name.substr(1)) : -1;
}

/// Both gradients of a plain sum are the upstream one.
bool is_plain_sum(const Step& step) {
  if (step.spec.op->name != "residual") return false;
  for (const AttributeSpec& a : step.spec.op->attributes)
    if (a.name == "scale") return std::get<double>(a.get(step.spec.attributes)) == 1;
  return false;
}

/// All of a value, in its shape.
Ref whole(int value, const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return Ref{value, {count}, {1}, 0}.reshaped(shape);
}

const PassInfo& pass_of(const Step& step) { return step.spec.op->pass(step.spec.direction); }

}  // namespace

/// What is known so far of the gradients, by the value as the forward pass made it.
struct Tape::Gradients {
  Tape& tape;
  std::map<int, int> origin{};                   ///< of what was computed again
  std::map<int, std::vector<Ref>> addends{};     ///< whole values
  std::map<int, std::int64_t> elements_given{};  ///< of a gradient that is written in parts
  std::map<int, Ref> in_parts{};

  int origin_of(int value) const {
    const auto found = origin.find(value);
    return found == origin.end() ? value : found->second;
  }

  /// A gradient is stored as its value is; of a parameter as the policy says, and of an 8-bit
  /// operand in bf16, since nothing adds in 8 bits.
  Element element(const Value& v) const {
    if (v.life == Life::parameter) return element_of(tape.policy().gradient);
    return bytes_of(v.element) == 1 ? Element::bf16 : v.element;
  }

  /// Where a call writes what it adds to the gradient of `x`.
  Ref target(const Ref& x) {
    const int v = origin_of(x.value);
    const Value like = tape.values_[static_cast<std::size_t>(v)];
    const Ref all = tape.new_value("d " + like.name, element(like), like.shape);
    Ref seen = x;
    seen.value = all.value;
    if (x.count() == all.count()) {
      addends[v].push_back(all);
      return seen;
    }
    const auto [place, is_first] = in_parts.try_emplace(v, all);
    elements_given[v] += x.count();
    seen.value = place->second.value;
    return seen;
  }

  bool has(const Ref& x) const {
    const int v = origin_of(x.value);
    return addends.contains(v) || in_parts.contains(v);
  }

  /// The sum of what was added, of the whole value, in its shape.
  Ref total(int v, int layer) {
    if (const auto parts = in_parts.find(v); parts != in_parts.end()) {
      detail::require(elements_given[v] == parts->second.count(), "a gradient's parts make it up");
      addends[v].push_back(parts->second);
      in_parts.erase(parts);
    }
    std::vector<Ref>& terms = addends[v];
    detail::require(!terms.empty(), "a gradient that is read was given");
    Ref sum = terms.front();
    for (std::size_t i = 1; i < terms.size(); ++i) sum = tape.sum(layer, sum, terms[i]);
    terms = {sum};
    return sum;
  }
};

void Tape::store_inputs(Segment& segment) {
  std::set<int> made;
  std::vector<Ref> inputs;
  for (std::size_t i = segment.first; i < segment.last; ++i) {
    const auto& tensors = steps_[i].spec.op->forward.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const Ref& r = steps_[i].tensors[t];
      if (!r.exists()) continue;
      if (tensors[t].is_written()) {
        made.insert(r.value);
      } else if (value_of(r).life == Life::temporary && !made.contains(r.value) &&
                 is_float(value_of(r).element)) {
        inputs.push_back(r);
      }
    }
  }
  for (const Ref& x : inputs) {
    const Value v = value_of(x);
    if (segment.stored.contains(x.value)) continue;
    const bool is_narrower = bytes_of(element_of(segment_format_)) < bytes_of(v.element);
    const Ref all = whole(x.value, v.shape);
    segment.stored[x.value] = is_narrower ? stored(all, segment_format_, steps_.back().layer) : all;
  }
}

void Tape::recompute(const Segment& segment, Gradients& gradients) {
  std::map<int, int> again;
  for (const auto& [x, kept] : segment.stored) {
    if (kept.value == x) continue;
    const Format format = format_of(values_[static_cast<std::size_t>(x)].element);
    again[x] = stored(kept, format, steps_[segment.first].layer).value;
  }
  const std::size_t begin = steps_.size();
  for (std::size_t i = segment.first; i < segment.last; ++i) {
    Step copy = steps_[i];
    const auto& tensors = copy.spec.op->forward.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Ref& r = copy.tensors[t];
      if (!r.exists()) continue;
      if (tensors[t].is_written() && !again.contains(r.value)) {
        const Value made = value_of(r);
        again[r.value] = new_value(made.name, made.element, made.shape).value;
      }
      if (const auto found = again.find(r.value); found != again.end()) r.value = found->second;
    }
    steps_.push_back(std::move(copy));
  }
  for (const auto& [x, second] : again) gradients.origin[second] = x;
  for (std::size_t i = steps_.size(); i-- > begin;) {
    const Step step = steps_[i];  // a copy: the list grows
    differentiate_step(step, gradients);
  }
}

void Tape::differentiate_step(const Step& step, Gradients& gradients) {
  const Op& op = *step.spec.op;
  const auto& forward = op.forward.tensors;
  bool is_wanted = false;
  for (std::size_t t = 0; t < forward.size(); ++t)
    if (forward[t].is_written() && step.tensors[t].exists())
      is_wanted = is_wanted || gradients.has(step.tensors[t]);
  if (!is_wanted) return;
  const auto upstream = [&](std::size_t t) {
    const Ref& y = step.tensors[t];
    const Ref whole = gradients.total(gradients.origin_of(y.value), step.layer);
    return Ref{whole.value, y.size, y.stride, y.offset};
  };
  if (op.name == "cast") {
    const Ref dy = upstream(1);
    cast(dy, gradients.target(step.tensors[0]), step.layer);
    return;
  }
  if (is_plain_sum(step)) {
    const Ref dy = upstream(2);
    for (const std::size_t t : {std::size_t{0}, std::size_t{1}}) {
      const int v = gradients.origin_of(step.tensors[t].value);
      const Value like = values_[static_cast<std::size_t>(v)];
      gradients.addends[v].push_back(
          stored(whole(dy.value, like.shape), format_of(gradients.element(like)), step.layer));
    }
    return;
  }
  detail::require(op.backward.has_value(), "an op of a model has a backward pass");
  Step back = step;
  back.spec.direction = Direction::backward_local;
  back.tensors.clear();
  for (const TensorSpec& tensor : op.backward->tensors) {
    if (!op.has_tensor(step.spec.attributes, tensor.name)) {
      back.tensors.emplace_back();
      continue;
    }
    const int same = forward_place(op, tensor.name), origin = gradient_of(op, tensor.name);
    if (tensor.is_written()) {
      const bool is_gradient =
          origin >= 0 && step.tensors[static_cast<std::size_t>(origin)].exists();
      back.tensors.push_back(is_gradient
                                 ? gradients.target(step.tensors[static_cast<std::size_t>(origin)])
                                 : new_value(step.part + "." + std::string(tensor.name),
                                             tensor_element(step.spec, tensor),
                                             tensor_shape(step.spec, tensor)));
    } else if (same >= 0) {
      back.tensors.push_back(step.tensors[static_cast<std::size_t>(same)]);
    } else {
      detail::require(origin >= 0, "a backward pass reads what the forward pass has, or gradients");
      const Ref dy = upstream(static_cast<std::size_t>(origin));
      const std::optional<Format> format = policy_->rule(step.part, step.layer).gradient;
      back.tensors.push_back(format ? stored(dy, *format, step.layer) : dy);
    }
  }
  steps_.push_back(std::move(back));
}

void Tape::differentiate(const std::vector<std::pair<Ref, Ref>>& upstream) {
  detail::require(!in_segment_, "a segment was ended");
  Gradients gradients{*this};
  for (const auto& [y, dy] : upstream) gradients.addends[y.value].push_back(dy);
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const auto segment = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& s) {
      return s.last == i + 1 && s.first < s.last;
    });
    if (segment == segments_.end()) {
      const Step step = steps_[i];
      differentiate_step(step, gradients);
      continue;
    }
    recompute(Segment(*segment), gradients);
    i = segment->first;
    if (i == 0) break;
  }
  for (std::size_t g = 0; g < values_.size(); ++g) {
    if (values_[g].life != Life::gradient) continue;
    for (std::size_t p = 0; p < values_.size(); ++p) {
      const bool is_its =
          values_[p].life == Life::parameter && values_[p].parameter == values_[g].parameter;
      if (!is_its || !gradients.has(Ref{static_cast<int>(p), {}, {}, 0})) continue;
      keep(gradients.total(static_cast<int>(p), -1), Ref{static_cast<int>(g), {}, {}, 0});
    }
  }
  drop_unread();
}

void Tape::drop_unread() {
  std::set<int> read;
  std::vector<Step> live;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const auto& tensors = pass_of(steps_[i]).tensors;
    bool is_live = false;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const Ref& r = steps_[i].tensors[t];
      if (r.exists() && tensors[t].is_written())
        is_live = is_live || value_of(r).life != Life::temporary || read.contains(r.value);
    }
    if (!is_live) continue;
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (steps_[i].tensors[t].exists() && !tensors[t].is_written())
        read.insert(steps_[i].tensors[t].value);
    live.push_back(std::move(steps_[i]));
  }
  std::reverse(live.begin(), live.end());
  steps_ = std::move(live);
  segments_.clear();
}

}  // namespace opbound::train
