// Faulty kernels, for planted faults and public cases alike: what they are made of.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/attribute.hpp"
#include "ops/op.hpp"
#include "ops/precision.hpp"
#include "suites/suite.hpp"

namespace opbound {

using Kernel = std::function<void(const Op&, const Call&)>;

/// A kernel with a fault, and the same kernel without it: only what it does otherwise than the
/// control can be what is found. A change of our own kernel has that one as its control.
struct FaultyKernel {
  FaultyKernel() = default;
  template <class F>
  requires std::is_invocable_v<F, const Op&, const Call&> FaultyKernel(F faulty)
      : run(std::move(faulty)) {}  // NOLINT(google-explicit-constructor)
  FaultyKernel(Kernel faulty, Kernel right) : run(std::move(faulty)), control(std::move(right)) {}

  Kernel run;
  Kernel control;
};

/// Attributes by name, as a table of faults or cases has them.
using Attributes = std::vector<std::pair<std::string_view, AttributeValue>>;

/// The case that a faulty kernel is judged in, its inputs still to be named; the default variant of
/// the attributes if `variant` is empty.
inline CaseSpec case_of(std::string_view op, Direction direction, std::string_view precision,
                        const std::vector<std::int64_t>& shape, const Attributes& attributes,
                        std::string_view variant = {}) {
  CaseSpec spec;
  spec.op = find_op(op);
  spec.direction = direction;
  spec.attributes = spec.op->default_attributes;
  for (const auto& [name, value] : attributes)
    for (const AttributeSpec& a : spec.op->attributes)
      if (a.name == name) detail::require(a.set(spec.attributes, value), "an attribute of a case");
  spec.variant =
      variant.empty() ? spec.op->default_variant(spec.attributes) : spec.op->variant_named(variant);
  spec.declared = {spec.variant};
  spec.precision = precision_named(precision).value();
  for (std::size_t d = 0; d < shape.size(); ++d) spec.sizes[d] = shape[d];
  return spec;
}

namespace faulty {

inline void own(const Op& op, const Call& call) { op.run(call); }

/// The tensors of the judged pass, by name.
class Judged {
 public:
  Judged(const Op& op, const Call& call)
      : tensors_(op.pass(call.direction).tensors), views_(call.judged()) {}

  std::size_t place(std::string_view name) const {
    std::size_t t = 0;
    while (tensors_[t].name != name) ++t;
    return t;
  }
  /// The only output there is.
  std::string_view output() const {
    const TensorSpec* found = nullptr;
    for (const TensorSpec& t : tensors_) {
      if (!t.is_judged()) continue;
      detail::require(found == nullptr, "the name of one of several outputs");
      found = &t;
    }
    return found->name;
  }
  const TensorView& operator()(std::string_view name) const { return views_[place(name)]; }
  float get(std::string_view name, std::int64_t i) const {
    return static_cast<float>((*this)(name).at(i));
  }
  /// Of integers and booleans.
  std::int64_t index(std::string_view name, std::int64_t i) const {
    return load_index((*this)(name).element, (*this)(name).data, i);
  }
  /// Rounded to nearest, as the tensor is stored.
  void put(std::string_view name, std::int64_t i, double value) const {
    const TensorView& v = (*this)(name);
    v.set(i, round_to(format_of(v.element), value));
  }

 private:
  std::span<const TensorSpec> tensors_;
  std::span<const TensorView> views_;
};

/// output[i] = f(inputs[i]...) in fp32.
template <class F>
Kernel each(std::string_view output, const std::vector<std::string_view>& inputs, F f) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    for (std::int64_t i = 0; i < t(output).count(); ++i) {
      if constexpr (requires { f(0.0F); }) {
        t.put(output, i, f(t.get(inputs[0], i)));
      } else if constexpr (requires { f(0.0F, 0.0F); }) {
        t.put(output, i, f(t.get(inputs[0], i), t.get(inputs[1], i)));
      } else {
        t.put(output, i, f(t.get(inputs[0], i), t.get(inputs[1], i), t.get(inputs[2], i)));
      }
    }
  };
}
template <class F>
FaultyKernel elementwise(std::string_view output, const std::vector<std::string_view>& inputs,
                         F f) {
  return each(output, inputs, f);
}
/// With a control: `right` for f.
template <class F, class G>
FaultyKernel elementwise(std::string_view output, const std::vector<std::string_view>& inputs, F f,
                         G right) {
  return {each(output, inputs, f), each(output, inputs, right)};
}

/// Our own kernel on a call that is not the one asked for: `change` takes it, after the op if it
/// likes.
template <class F>
FaultyKernel with_call(F change) {
  const auto run = [change](const Op& op, const Call& call) {
    Call other = call;
    if constexpr (std::is_invocable_v<F, const Op&, Call&>)
      change(op, other);
    else
      change(other);
    op.run(other);
  };
  return {run, own};
}

/// Our own kernel by another algorithm than is declared.
inline FaultyKernel by_variant(std::string_view variant) {
  return with_call([variant](const Op& op, Call& c) { c.variant = op.variant_named(variant); });
}

/// Our own kernel with another attribute than is declared.
inline FaultyKernel with_attribute(std::string_view attribute, const AttributeValue& value) {
  return with_call([=](const Op& op, Call& c) {
    for (const AttributeSpec& a : op.attributes)
      if (a.name == attribute) a.set(c.attributes, value);
  });
}

/// The same for attributes that `change` computes from the declared ones.
template <class A, class F>
FaultyKernel with_attributes_of(F change) {
  return with_call([change](Call& c) {
    auto a = from_bytes<A>(c.attributes);
    change(a);
    c.attributes = to_bytes(a);
  });
}

/// Our own kernel on an input of the judged pass that `change`(view, i) makes anew.
template <class F>
FaultyKernel with_input(std::string_view tensor, F change) {
  const auto run = [=](const Op& op, const Call& call) {
    Call other = call;
    auto& views = call.direction == Direction::forward ? other.forward : other.backward;
    TensorView& view = views[Judged(op, call).place(tensor)];
    Tensor copy(view.element, Shape(view.size, view.size + view.rank));
    for (std::int64_t i = 0; i < view.count(); ++i)
      copy.set(i, round_to(format_of(view.element), change(view, i)));
    view = copy.view();
    op.run(other);
  };
  return {run, own};
}

/// Our own kernel, whose outputs `spoil`(judged, call) changes afterwards.
template <class F>
FaultyKernel then(F spoil) {
  const auto run = [spoil](const Op& op, const Call& call) {
    op.run(call);
    spoil(Judged(op, call), call);
  };
  return {run, own};
}

/// Both of our own passes, between which what is saved is f(view, i).
template <class F>
FaultyKernel with_saved(std::string_view tensor, F f) {
  const auto run = [=](const Op& op, const Call& call) {
    Call forward = call;
    forward.direction = Direction::forward;
    forward.backward.clear();
    op.run(forward);
    const TensorView saved = call.forward[Judged(op, forward).place(tensor)];
    Tensor changed(saved.element, Shape(saved.size, saved.size + saved.rank));
    for (std::int64_t i = 0; i < saved.count(); ++i)
      changed.set(i, round_to(format_of(saved.element), f(saved, i)));
    Call backward = call;
    backward.direction = Direction::backward_local;
    backward.forward.clear();
    backward.backward[Judged(op, call).place(tensor)] = changed.view();
    op.run(backward);
  };
  return {run, own};
}

/// Our own kernel in fp32, an output truncated instead of rounded to nearest; the only one if no
/// name is given.
inline FaultyKernel truncating(std::string_view output = {}) {
  const auto run = [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    const std::string_view name = output.empty() ? t.output() : output;
    const TensorView& y = t(name);
    Tensor wide(fp32, {y.count()});
    Call other = call;
    auto& views = call.direction == Direction::forward ? other.forward : other.backward;
    views[t.place(name)] = wide.view();
    op.run(other);
    for (std::int64_t i = 0; i < y.count(); ++i)
      y.set(i, truncate_to(format_of(y.element), wide.at(i)));
  };
  return {run, own};
}

inline float rounded(const Format& f, float x) { return static_cast<float>(round_to(f, x)); }
inline float in_bf16(float x) { return rounded(bf16, x); }
inline float in_fp16(float x) { return rounded(fp16, x); }
inline float as_is(float x) { return x; }
inline float plain_add(float a, float b) { return a + b; }
inline float add_in_bf16(float a, float b) { return in_bf16(a + b); }
inline float add_in_fp16(float a, float b) { return in_fp16(a + b); }

inline std::int64_t index_at(const TensorView& v, std::int64_t i) {
  return load_index(v.element, v.data, i);
}

/// Row `row` of a matrix, in fp32.
inline std::vector<float> row_of(const TensorView& v, std::int64_t row) {
  std::vector<float> x;
  for (std::int64_t j = 0; j < v.size[1]; ++j)
    x.push_back(static_cast<float>(v.at(row * v.size[1] + j)));
  return x;
}
inline float largest(const std::vector<float>& x) {
  float top = x[0];
  for (const float v : x) top = max(top, v);
  return top;
}

}  // namespace faulty
}  // namespace opbound
