// Planted faults: each one line away from a right kernel, each to be found by the right kernel's
// bound on inputs that any correct kernel passes. The list of faults is public: faults/<op>.hpp.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "suites/input.hpp"
#include "tests/faulty_kernel.hpp"

namespace opbound {

/// Tensors, each with its generator.
using Inputs = std::vector<std::pair<std::string_view, std::string_view>>;

/// A faulty kernel and the case that shows it.
struct Fault {
  std::string_view op;
  std::string_view name;
  std::string_view what;  ///< the line that is wrong
  Direction direction = Direction::forward;
  std::string_view precision = "fp32";
  std::vector<std::int64_t> shape;
  Inputs inputs;
  Attributes attributes;
  FaultyKernel kernel;
};

/// Every fault of every op that has a faults file.
std::vector<Fault> all_faults();

/// The case of a fault, judged by the default variant of its attributes.
inline CaseSpec case_of(const Fault& fault) {
  CaseSpec spec =
      case_of(fault.op, fault.direction, fault.precision, fault.shape, fault.attributes);
  for (const auto& [tensor, input] : fault.inputs)
    spec.inputs.emplace_back(tensor, parse_input(input));
  spec.suite = "tests/faults";
  spec.name = fault.name;
  return spec;
}

namespace faults {

using namespace faulty;

inline Fault planted(std::string_view op, std::string_view name, std::string_view what,
                     Direction direction, std::string_view precision,
                     std::vector<std::int64_t> shape, Inputs inputs, Attributes attributes,
                     FaultyKernel kernel) {
  return {op,
          name,
          what,
          direction,
          precision,
          std::move(shape),
          std::move(inputs),
          std::move(attributes),
          std::move(kernel)};
}

/// Several lists as one.
template <class... Lists>
std::vector<Fault> joined(Lists... lists) {
  std::vector<Fault> all;
  for (std::vector<Fault>* list : {&lists...})
    for (Fault& fault : *list) all.push_back(std::move(fault));
  return all;
}

}  // namespace faults
}  // namespace opbound
