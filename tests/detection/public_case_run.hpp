// A public case as something to run: its specification, and its tensors.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "suites/input.hpp"
#include "suites/prepare.hpp"
#include "tests/cases/public_case.hpp"

namespace opbound {

inline CaseSpec spec_of(const PublicCase& c) {
  CaseSpec spec = case_of(c.op, c.direction, c.precision, c.shape, c.attributes, c.variant);
  for (const CaseInput& input : c.inputs)
    if (!input.generator.empty())
      spec.inputs.emplace_back(input.tensor, parse_input(input.generator));
  spec.suite = "tests/cases";
  spec.name = c.id;
  return spec;
}

/// An input of either pass, by name.
inline const TensorSpec& input_named(const Op& op, std::string_view name) {
  for (const TensorSpec& t : op.forward.tensors)
    if (t.name == name) return t;
  for (const TensorSpec& t : op.backward.value().tensors)
    if (t.name == name) return t;
  throw std::invalid_argument("no tensor " + std::string(name));
}

inline Prepared prepared_for(const PublicCase& c, const CaseSpec& spec) {
  Tensors given;
  for (const CaseInput& input : c.inputs) {
    if (input.values.empty()) continue;
    const TensorSpec& t = input_named(*spec.op, input.tensor);
    Tensor tensor(tensor_element(spec, t), tensor_shape(spec, t));
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      tensor.set(i, input.values[static_cast<std::size_t>(i) % input.values.size()]);
    given.emplace(std::string(input.tensor), std::move(tensor));
  }
  return prepare(spec, std::move(given));
}

}  // namespace opbound
