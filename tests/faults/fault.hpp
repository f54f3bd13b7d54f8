// Planted faults: each one line away from the right kernel, each to be found by the right kernel's
// bound on inputs that any correct kernel passes. The list of faults is public: faults/<op>.hpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op.hpp"
#include "ops/precision.hpp"
#include "suites/input.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// A faulty kernel and the case that shows it.
struct Fault {
  std::string_view op;
  std::string_view name;
  std::string_view what;  ///< the line that is wrong
  Direction direction = Direction::forward;
  std::string_view precision = "fp32";
  std::vector<std::int64_t> shape;
  std::vector<std::pair<std::string_view, std::string_view>> inputs;  ///< tensor, generator
  std::vector<std::pair<std::string_view, AttributeValue>> attributes;
  std::function<void(const Op&, const Call&)> run;
};

/// Every fault of every op that has a faults file.
std::vector<Fault> all_faults();

/// The case of a fault, judged by the default variant of its attributes.
inline CaseSpec case_of(const Fault& fault) {
  CaseSpec spec;
  spec.op = find_op(fault.op);
  spec.direction = fault.direction;
  spec.attributes = spec.op->default_attributes;
  for (const auto& [name, value] : fault.attributes)
    for (const AttributeSpec& a : spec.op->attributes)
      if (a.name == name) detail::require(a.set(spec.attributes, value), "a fault's attribute");
  spec.variant = spec.op->default_variant(spec.attributes);
  spec.declared = {spec.variant};
  spec.precision = precision_named(fault.precision).value();
  for (std::size_t d = 0; d < fault.shape.size(); ++d) spec.sizes[d] = fault.shape[d];
  for (const auto& [tensor, input] : fault.inputs)
    spec.inputs.emplace_back(tensor, parse_input(input));
  spec.suite = "tests/faults";
  spec.name = fault.name;
  return spec;
}

namespace faults {

/// The right kernel, on a call that is not the one asked for.
template <class F>
std::function<void(const Op&, const Call&)> with_call(F change) {
  return [change](const Op& op, const Call& call) {
    Call other = call;
    change(other);
    op.run(other);
  };
}

/// y[i] = f(x[i]) over fp32 with the store's own rounding; `from` and `to` are tensors of the
/// judged pass.
template <class F>
std::function<void(const Op&, const Call&)> elementwise(int from, int to, F f) {
  return [=](const Op&, const Call& call) {
    const TensorView x = call.judged()[static_cast<std::size_t>(from)];
    const TensorView y = call.judged()[static_cast<std::size_t>(to)];
    for (std::int64_t i = 0; i < x.count(); ++i)
      y.set(i, round_to(format_of(y.element), f(static_cast<float>(x.at(i)), i)));
  };
}

/// The right kernel in fp32, its output truncated instead of rounded to nearest.
inline std::function<void(const Op&, const Call&)> truncating(int output) {
  return [=](const Op& op, const Call& call) {
    const TensorView y = call.judged()[static_cast<std::size_t>(output)];
    Tensor wide(fp32, {y.count()});
    Call other = call;
    auto& views = call.direction == Direction::forward ? other.forward : other.backward;
    views[static_cast<std::size_t>(output)] = wide.view();
    op.run(other);
    for (std::int64_t i = 0; i < y.count(); ++i)
      y.set(i, truncate_to(format_of(y.element), wide.at(i)));
  };
}

}  // namespace faults
}  // namespace opbound
